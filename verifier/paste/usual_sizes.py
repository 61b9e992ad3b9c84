"""Small sizes that divide one another, by the names people give to constructor parameters."""

from __future__ import annotations

import re

_BY_NAME: tuple[tuple[str, str], ...] = (
    (r"(?:num_?|n_?)?(?:kv_?|q_?|query_?)?heads?|nheads?", "4"),
    (r"(?:num_?|n_?)?class(?:es)?|out_classes|num_labels|nc", "10"),
    (r"(?:num_?|n_?)?(?:vocab|tokens)(?:_?size)?|num_embeddings|ntokens?", "128"),
    (r".*groups?", "4"),
    (r"(?:.*_)?kernel(?:_?size)?s?|ks?", "3"),
    (r"(?:.*_)?(?:stride|dilation)s?", "1"),
    (r"(?:.*_)?pad(?:ding)?", "1"),
    (r"(?:.*_)?(?:num_?|n_?)?(?:layers|blocks|depth|experts?_per_token|repeats?)|top_?k|n_?layers?", "2"),
    (r"(?:num_?|n_?)?experts", "4"),
    (r"max_.*len.*|.*seq_?len.*|block_size|context_?(?:size|length|len)|max_position.*|window(?:_size)?|length", "32"),
    (r".*drop(?:out|_?path)?(?:_?(?:rate|prob|p))?|p|.*_drop", "0.0"),
    (r".*eps(?:ilon)?", "1e-05"),
    (r"momentum", "0.1"),
    (
        r".*(?:slope|alpha|beta|gamma|temperature|tau|margin|lambda\w*|weight|threshold|lr|smoothing|scale|delta)",
        "0.5",
    ),
    (r".*(?:min|low|lower)(?:_val(?:ue)?)?", "-1.0"),
    (r".*(?:max|high|upper)(?:_val(?:ue)?)?", "1.0"),
    (
        r".*bias|use_.*|has_.*|with_.*|is_.*|.*causal|affine|inplace|batch_first|bidirectional|keep_?dim|training",
        "True",
    ),
    (r"(?:axis|dims?_to_reduce|reduce_dim)", "1"),
    (r"(?:.*im(?:a?ge?)?_?size|resolution|height|width|h|w)", "32"),
    (r".*patch.*", "8"),
    (r"(?:.*ratio|.*factor|.*mult(?:iplier)?|expansion|reduction|r|rank)", "4"),
    (r".*act(?:ivation)?(?:_?(?:fn|func|type|name))?", "'relu'"),
    (r"(?:.*out_?(?:ch(?:annels?)?|planes|filters))", "16"),
    (r".*(?:ch(?:annels?|ans?)?|planes|filters|nf|ngf|ndf|num_features|growth_rate|c_?(?:in|out)?|c[12]|width)", "16"),
    (r".*(?:out|target)(?:put)?_?(?:features?|dims?|size|d)?|.*_out", "48"),
    (r".*(?:shape)", "[64]"),
    (r".*(?:sizes|dims|hidden_layers|widths|features_list)", "[64, 64]"),
)
_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), text) for pattern, text in _BY_NAME)
_BY_KIND = {"int": "16", "float": "0.5", "bool": "True", "str": "'relu'"}
WIDTH = "64"
"""The size of a feature dimension about which nothing else is known."""


def by_name(name: str, kind: str = "") -> str:
    """Guess from a name and the kind its annotation names."""
    if kind in ("bool", "str") or kind.startswith(("List", "list", "Tuple", "tuple", "Sequence")):
        text = next((t for p, t in _PATTERNS if p.fullmatch(name) and t[0] in "'T["), "")
        return text or _BY_KIND.get(kind) or ("[3, 3]" if kind[:1] in "Tt" else "[64, 64]")
    text = next((t for p, t in _PATTERNS if p.fullmatch(name)), "")
    if kind == "float" and (not text or "." not in text):
        return text if text.isdigit() and text != WIDTH else _BY_KIND["float"]
    return text or WIDTH
