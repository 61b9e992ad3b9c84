"""The whole file: header, kernels with their launchers, the user's classes, and ModelNew."""

from __future__ import annotations

from collections.abc import Iterator

from backends import NothingToConvert
from backends.compiler.attend import attended
from backends.compiler.carried import carried
from backends.compiler.formatting import formatted, sections
from backends.compiler.forward import Forward
from backends.compiler.fuse import fuse
from backends.compiler.header import header, imports, nothing, only_copies
from backends.compiler.ir import Program
from backends.compiler.schedule import Schedule
from backends.compiler.squeezed import squeezed
from backends.compiler.usercode import keep, stacked


def write(program: Program, source: str, entry: str, schedule: Schedule) -> Iterator[str]:
    """Yield the file's sections in order; raise NothingToConvert if no kernel would be in it."""
    returned = program.kept
    program.ops = attended(program.ops, returned)
    groups = fuse(program.ops, returned)
    if all(group.kind == "extern" for group in groups) or only_copies(groups):
        raise NothingToConvert("not_convertible", nothing(groups))
    forward = Forward(program, groups, squeezed(groups, program.ops, returned), source, entry, schedule)
    text = forward.write()
    body = "\n".join([*text.functions, text.body])
    kept = keep(source, entry, text.body, text.functions)
    parts = [forward.parts.text(part.group, part.name) for part in forward.parts]
    kernels = "\n\n\n".join(f"{part.kernel}\n\n{part.launcher}" for part in parts)
    classes = "\n".join([*kept.definitions, kept.model])
    helpers = carried(f"{kernels}\n{body}", schedule.carried)
    used = imports(kept.imports, "\n".join([kernels, *helpers]), body, classes)
    differs = schedule.planes != 1 or any(part.planes for part in parts)
    top = f"{header(entry, groups, schedule.name if differs else '', program.unset)}\n\n{used}"
    written = [top, *helpers, kernels, *stacked(kept.definitions), *text.functions, kept.model]
    yield from sections(formatted("\n\n\n".join(written) + "\n"))
