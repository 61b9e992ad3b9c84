"""Opens what a run needs, a verifier and a backend, and closes both; the one place that joins the two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import backends
import verifier
from backends import Backend
from repl.arguments import Settings

if TYPE_CHECKING:
    from verifier.desk import Verifier


def open_verifier(settings: Settings) -> Verifier:
    """Start the judge's process, or none with --in-process; returns at once."""
    judge = verifier.open_verifier(**settings.options.for_verifier())
    if modules := backends.ahead(settings.backend):
        judge.ahead(modules)
    return judge


def open_backend(settings: Settings, judge: Verifier) -> Backend:
    """Open the backend the person chose; what it executes runs in the verifier's children."""
    backend = backends.open(
        settings.backend,
        model=settings.model,
        device=settings.options.device,
        spawn=None if settings.options.in_process else judge.spawn,
        download=settings.download,
    )
    if settings.record:
        return _recorded(backend, settings.record)
    return backend


def _recorded(backend: Backend, path: str) -> Backend:
    from backends.recording import Recording
    from backends.team import Team

    if isinstance(backend, Team):
        return Team(Recording(backend.first, path), Recording(backend.second, path))
    return Recording(backend, path)


@contextmanager
def opened(settings: Settings) -> Iterator[tuple[Backend, Verifier]]:
    """Hold a backend and a verifier for one run."""
    judge = open_verifier(settings)
    try:
        backend = open_backend(settings, judge)
        try:
            yield backend, judge
        finally:
            backend.close()
    finally:
        judge.close()
