"""einsum in many forms, each converted, interpreted and compared, in a process of its own: one JSON line a form."""

from __future__ import annotations

import json
import logging
import os
import warnings

os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported

EQUATIONS: dict[str, tuple[tuple[int, ...], ...]] = {
    "ij->i": ((5, 70),),
    "ijk->k": ((3, 4, 5),),
    "ij,kj->ik": ((5, 6), (7, 6)),
    "ij,jk": ((5, 6), (6, 7)),
    "ij,->ij": ((3, 4), ()),
    "i,j->ij": ((5,), (6,)),
    "i,i->": ((9,), (9,)),
    "ij,ij->": ((5, 6), (5, 6)),
    "bi,bi->b": ((4, 33), (4, 33)),
    "bij,bj->bi": ((3, 5, 9), (3, 9)),
    "bij,jk->bk": ((2, 3, 4), (4, 5)),
    "bd,edf->bef": ((6, 16), (3, 16, 20)),
    "ijk,il->jkl": ((4, 5, 6), (4, 7)),
    "bhid,bhjd->bhij": ((2, 3, 17, 8), (2, 3, 19, 8)),
    "bijd,bjkd->bik": ((2, 5, 6, 3), (2, 6, 7, 3)),
    "bhwc,hkc->bhwk": ((2, 4, 5, 16), (4, 6, 16)),
    "nchw,ncvw->nchv": ((2, 3, 5, 6), (2, 3, 7, 6)),
    "...ij,...jk->...ik": ((2, 3, 5, 6), (2, 3, 6, 7)),
    "...ij,jk->...ik": ((2, 3, 5, 6), (6, 7)),
    "ij,jk,kl->il": ((5, 6), (6, 7), (7, 8)),
    "abc,cd,d->ab": ((3, 4, 5), (5, 6), (6,)),
}


def main() -> None:
    """Run them all."""
    import torch

    from tests.backends.compiler.outcome import judge
    from tests.backends.compiler.sweep import repair_interpreter
    from tests.backends.compiler.written import source

    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    repair_interpreter()
    torch.set_num_threads(1)
    for equation, shapes in EQUATIONS.items():
        names = ", ".join(f"x{number}" for number in range(len(shapes)))
        text = source(f"return torch.einsum({equation!r}, {names})", *shapes)
        outcome = judge(text, tuple(torch.randn(shape) for shape in shapes))
        print(json.dumps({"equation": equation, "kind": outcome.kind, "detail": outcome.detail}), flush=True)


if __name__ == "__main__":
    main()
