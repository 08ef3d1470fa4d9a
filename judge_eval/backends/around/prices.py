"""What calls cost, by the price list of the package genai-prices (extra `cost`), without a network."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from judge_eval.backends.base import Identity
from judge_eval.errors import ConfigError, needs_extra
from judge_eval.wire import Usage


def price_of(identity: Identity, usage: Usage) -> float | None:
    """Say what tokens cost.

    The provider is found by the base URL, else by the model's name: so a proxy's price is its provider's.

    Args:
        identity: Who was asked.
        usage: The tokens; the cached among the input ones are cheaper with some models.

    Returns:
        US dollars >= 0; None where the model is not in the list or the package is not installed, never 0
        for it.
    """
    try:
        genai_prices: Any = importlib.import_module("genai_prices")
    except ImportError:
        return None
    tokens = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=min(usage.cached_tokens, usage.input_tokens),
    )
    hints = ({"provider_api_url": identity.base_url}, {}) if identity.base_url else ({},)
    for hint in hints:
        try:
            return float(genai_prices.calc_price(tokens, identity.model, **hint).total_price)
        except LookupError:
            continue
    return None


def require_price(identity: Identity | None) -> None:
    """Make sure that a budget in money can be kept.

    Raises:
        ConfigError: The package is not installed, or the model's price is not known.
    """
    if identity is not None and price_of(identity, Usage(1000, 1000)) is not None:
        return
    if not has_prices():
        raise needs_extra("max_cost needs a price list", "cost")
    raise ConfigError(f"max_cost: {why_unpriced(identity)}; use max_tokens or max_calls")


def has_prices() -> bool:
    """Tell whether the price list is installed."""
    return importlib.util.find_spec("genai_prices") is not None


def why_unpriced(identity: Identity | None) -> str:
    """Say why what a model costs is not known, and how it can be where it can."""
    if not has_prices():
        return str(needs_extra("no price list is installed; one that needs no network", "cost"))
    return f"the price of {identity.model if identity else 'this backend'!r} is not known"
