"""Takes away from this process what reading a file that is already open does not need: memory and time beyond a limit, and every
system call but a few (Linux's seccomp, on x86-64 and aarch64). There is no way back."""

import ctypes
import platform
import resource
import struct

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER_MODE = 38, 22, 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_KILL, _ALLOW, _REFUSE = 0x80000000, 0x7FFF0000, 0x00050001  # refuse: EPERM

# Reading and writing what is open, memory, threads' locks, time, the end. Nothing that opens, makes, sends or starts.
_CALLS = {
    "x86_64": (0xC000003E, {
        "read": 0, "write": 1, "close": 3, "fstat": 5, "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12,
        "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "pread64": 17, "readv": 19, "writev": 20, "sched_yield": 24,
        "mremap": 25, "madvise": 28, "getpid": 39, "exit": 60, "getrusage": 98, "sigaltstack": 131, "gettid": 186, "futex": 202,
        "restart_syscall": 219, "clock_gettime": 228, "exit_group": 231, "getrandom": 318, "rseq": 334}),
    "aarch64": (0xC00000B7, {
        "close": 57, "lseek": 62, "read": 63, "write": 64, "readv": 65, "writev": 66, "pread64": 67, "fstat": 80, "exit": 93,
        "exit_group": 94, "futex": 98, "clock_gettime": 113, "sched_yield": 124, "restart_syscall": 128, "sigaltstack": 132,
        "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "getrusage": 165, "getpid": 172, "gettid": 178, "brk": 214,
        "munmap": 215, "mremap": 216, "mmap": 222, "mprotect": 226, "madvise": 233, "getrandom": 278, "rseq": 293}),
}


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def _filter(arch, numbers):
    """The BPF program: this architecture's own calls of the list are allowed, all others get EPERM."""
    code = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, arch), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0),
            (_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _KILL)]  # x32: other numbers for the same calls
    numbers = sorted(numbers)
    code += [(_EQUAL, len(numbers) - i, 0, n) for i, n in enumerate(numbers)]
    code += [(_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("<HBBI", *c) for c in code)


def limit(memory_bytes, seconds):
    """Bounds memory and processor time; no file may be opened or grow, no core is written."""
    for what, value in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_FSIZE, 0),
                        (resource.RLIMIT_NOFILE, 0), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (value, value))


def refuse_system_calls():
    """True when the filter is in force, False where the machine has none."""
    arch, calls = _CALLS.get(platform.machine(), (0, None))
    if calls is None:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    code = _filter(arch, calls.values())
    program = _Program(len(code) // 8, code)
    unused = [ctypes.c_ulong(0)] * 3
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), *unused) != 0:
        return False
    return libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_FILTER_MODE), ctypes.byref(program), *unused[:2]) == 0
