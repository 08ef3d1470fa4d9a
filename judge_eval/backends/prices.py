"""What calls cost, by the price list of the package genai-prices (extra `cost`), without a network."""

from __future__ import annotations

import importlib
from decimal import Decimal
from typing import Any

from judge_eval.errors import ConfigError
from judge_eval.wire import Usage


def price(model: str, usage: Usage) -> Decimal | None:
    """Say what tokens cost.

    Args:
        model: The model's name, as sent to the server; its provider is found by it.
        usage: The tokens; the cached among the input ones are cheaper with some models.

    Returns:
        US dollars >= 0; None where the model is not in the list, never 0 for it.

    Raises:
        ConfigError: The package genai-prices is not installed.
    """
    try:
        genai_prices: Any = importlib.import_module("genai_prices")
    except ImportError:
        raise ConfigError("prices need: pip install 'judge-eval[cost]'") from None
    tokens = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=min(usage.cached_tokens, usage.input_tokens),
    )
    try:
        return Decimal(genai_prices.calc_price(tokens, model_ref=model).total_price)
    except LookupError:
        return None
