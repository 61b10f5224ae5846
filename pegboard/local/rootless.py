"""PostgreSQL refuses to run as root. Two ways for root to start it all the same."""

import ctypes
import os
import pwd
import subprocess
import sys
from functools import partial
from pathlib import Path

CLONE_NEWUSER = 0x10000000


def enter_user_namespace(account: pwd.struct_passwd) -> None:
    """Let this process run as `account`, while its files belong to root. Call it between fork and exec."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "unshare")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{account.pw_uid} 0 1"),
        ("gid_map", f"{account.pw_gid} 0 1"),
    ):
        Path("/proc/self", name).write_text(text)


def user_namespaces_work(account: pwd.struct_passwd) -> bool:
    """Return whether this machine allows user namespaces; containers often forbid them."""
    if sys.platform != "linux":
        return False
    try:
        enter = partial(enter_user_namespace, account)
        return subprocess.run(["true"], preexec_fn=enter, check=False).returncode == 0  # noqa: S607
    except (OSError, subprocess.SubprocessError):
        return False


def become(account: pwd.struct_passwd) -> None:
    """Change to this user for good, between fork and exec."""
    os.setgroups([])
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)


def unprivileged_account() -> pwd.struct_passwd:
    accounts = {entry.pw_name: entry for entry in pwd.getpwall() if entry.pw_uid != 0}
    for name in ("postgres", "nobody", *accounts):
        if name in accounts:
            return accounts[name]
    raise RuntimeError("PostgreSQL refuses to run as root, and this machine has no other account")
