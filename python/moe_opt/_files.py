"""Files that are there whole or not at all.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import secrets
from typing import Iterator


@contextlib.contextmanager
def replacing(target: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file beside the target to write to. It takes the target's place at the end of the block, and is removed if that raises."""
    target = target.resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(target.parent))
    temporary = target.parent / f".{target.name}.{secrets.token_hex(8)}"
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    mode = temporary.stat().st_mode & 0o777  # what the umask leaves: to ask for the umask is to change it, for other threads too
    try:
        yield temporary
        temporary.chmod(mode)  # who writes may have put another file there
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
