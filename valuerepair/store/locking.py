"""One writer a store: a lock that the kernel drops when its holder dies, even by kill -9."""

from __future__ import annotations

import errno
import fcntl
import os

from valuerepair.errors import ValueRepairError


class WriteLock:
    """Holds the right to write to a store.

    The lock is an flock on a side file ``STORE.lock``, not on the store: closing any descriptor of the store itself
    would drop the locks SQLite keeps on it. The side file names the holder's process and goes away with the lock.
    """

    def __init__(self, store_path: str) -> None:
        self._path = store_path + ".lock"
        self._descriptor = self._acquire(store_path)

    def _acquire(self, store_path: str) -> int:
        """Opens and locks the side file; again when its last holder removed it between the two steps.

        Raises ValueRepairError when another process holds it.
        """
        while True:
            descriptor = self._open(store_path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.exists(self._path) and os.path.samestat(os.fstat(descriptor), os.stat(self._path)):
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, str(os.getpid()).encode())
                    return descriptor
            except BlockingIOError:
                holder = os.read(descriptor, 20).decode(errors="replace").strip()
                os.close(descriptor)
                raise ValueRepairError(
                    f"{store_path} is being written by another vr (process {holder or 'unknown'}); "
                    "wait until it is done, stop it, or give another --db"
                ) from None
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _open(self, store_path: str) -> int:
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            raise ValueRepairError(
                f"{store_path} cannot be written: {error.strerror} for {self._path}; give another --db"
            ) from error

    def release(self) -> None:
        """Removes the side file, then lets go of it."""
        if self._descriptor >= 0:
            os.unlink(self._path)
            os.close(self._descriptor)
            self._descriptor = -1
