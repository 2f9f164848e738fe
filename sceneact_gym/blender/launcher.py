"""Confines its own process, then becomes the worker: `python -I -S launcher.py CONFIG`.

A process of its own because `preexec_fn` runs between fork and exec of a threaded parent and may deadlock there. Every
restriction below is inherited through exec and can never be taken back. Landlock decides which files can be opened;
the seccomp filter takes away the system calls that Landlock does not govern. Whatever fails ends the process with
code 126 and one line on stderr: there is no way past this file into an unconfined worker by accident.

Standard library only. CONFIG is JSON (see `isolation.launch_argv`); the worker never sees it, since exec replaces it.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import stat
import struct
import sys

TYPE_CHECKING = False  # importing `typing` would cost a seventh of the launcher's time
if TYPE_CHECKING:
    from typing import Any

FAILED = 126

# ---------------------------------------------------------------------------------------------------------- Landlock
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446  # the same on every architecture
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # the rest only makes sense on a directory
# No MAKE_SYM, MAKE_FIFO, MAKE_SOCK, MAKE_CHAR, MAKE_BLOCK anywhere: the parent opens what the worker left in its
# folder, and must find neither a link to somewhere else nor a pipe that blocks it.
RIGHTS = {
    "list": READ_DIR,
    "read": READ_DIR | READ_FILE,
    "exec": EXECUTE,
    "write": READ_DIR | READ_FILE | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER,
    "node": READ_DIR | READ_FILE | WRITE_FILE | TRUNCATE,
    "device": READ_DIR | READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV,
}

# ----------------------------------------------------------------------------------------------------------- seccomp
# The token of each architecture, and the first number this file does not know: a call that the kernel got later fails
# as on an older kernel (ENOSYS). On x86_64 that also refuses the x32 calls, whose numbers have bit 30 set.
ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
FIRST_UNKNOWN = 451
# name:x86_64:aarch64, "-" where an architecture lacks the call. Refused with EPERM whatever the arguments are.
REFUSED = """
    socket:41:198 socketpair:53:199 connect:42:203 bind:49:200 listen:50:201 accept:43:202 accept4:288:242
    sendto:44:206 recvfrom:45:207 sendmsg:46:211 recvmsg:47:212 sendmmsg:307:269 recvmmsg:299:243
    io_uring_setup:425:425 io_uring_enter:426:426 io_uring_register:427:427 io_setup:206:0 io_submit:209:2

    ptrace:101:117 process_vm_readv:310:270 process_vm_writev:311:271 process_madvise:440:440
    process_mrelease:448:448 kcmp:312:272 pidfd_open:434:434 pidfd_getfd:438:438 pidfd_send_signal:424:424
    move_pages:279:239 migrate_pages:256:238 get_robust_list:274:100 perf_event_open:298:241

    fork:57:- vfork:58:- execveat:322:281 setsid:112:157 setpgid:109:154
    setuid:105:146 setgid:106:144 setreuid:113:145 setregid:114:143 setresuid:117:147 setresgid:119:149
    setfsuid:122:151 setfsgid:123:152 setgroups:116:159 capset:126:91

    shmget:29:194 shmat:30:196 shmctl:31:195 shmdt:67:197 semget:64:190 semop:65:193 semctl:66:191
    semtimedop:220:192 msgget:68:186 msgsnd:69:189 msgrcv:70:188 msgctl:71:187 mq_open:240:180 mq_unlink:241:181
    mq_timedsend:242:182 mq_timedreceive:243:183 mq_notify:244:184 mq_getsetattr:245:185

    chmod:90:- fchmod:91:52 fchmodat:268:53 chown:92:- fchown:93:55 lchown:94:- fchownat:260:54 utime:132:-
    utimes:235:- futimesat:261:- utimensat:280:88 setxattr:188:5 lsetxattr:189:6 fsetxattr:190:7
    removexattr:197:14 lremovexattr:198:15 fremovexattr:199:16 mknod:133:- mknodat:259:33
    inotify_init:253:- inotify_init1:294:26 inotify_add_watch:254:27 fanotify_init:300:262 fanotify_mark:301:263

    mount:165:40 umount2:166:39 pivot_root:155:41 chroot:161:51 unshare:272:97 setns:308:268 open_tree:428:428
    move_mount:429:429 fsopen:430:430 fsconfig:431:431 fsmount:432:432 fspick:433:433 mount_setattr:442:442
    name_to_handle_at:303:264 open_by_handle_at:304:265

    bpf:321:280 userfaultfd:323:282 seccomp:317:277 add_key:248:217 request_key:249:218 keyctl:250:219
    memfd_create:319:279 memfd_secret:447:447 syslog:103:116 personality:135:92 modify_ldt:154:- iopl:172:-
    ioperm:173:- uselib:134:- _sysctl:156:- sysfs:139:- ustat:136:- lookup_dcookie:212:18 nfsservctl:180:42
    vhangup:153:58 acct:163:89 quotactl:179:60 quotactl_fd:443:443 sync:162:81 syncfs:306:267
    init_module:175:105 finit_module:313:273 delete_module:176:106 kexec_load:246:104 kexec_file_load:320:294
    reboot:169:142 swapon:167:224 swapoff:168:225 sethostname:170:161 setdomainname:171:162
    settimeofday:164:170 clock_settime:227:112 clock_adjtime:305:266 adjtimex:159:171
"""
# Judged by their arguments (or answered with ENOSYS) in `seccomp_program`.
JUDGED = """
    execve:59:221 clone:56:220 clone3:435:435 kill:62:129 tkill:200:130 tgkill:234:131 rt_sigqueueinfo:129:138
    rt_tgsigqueueinfo:297:240 prctl:157:167 prlimit64:302:261 fcntl:72:25 ioctl:16:29 setpriority:141:140
    ioprio_set:251:30 sched_setaffinity:203:122 sched_setscheduler:144:119 sched_setparam:142:118
    sched_setattr:314:274 open:2:- openat:257:56 openat2:437:437 truncate:76:45
"""
CLONE_THREAD = 0x10000
CLONE_NAMESPACES = 0x7E020000  # NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWNS
# The two names (thread, memory region), what only reads, what only tightens, and pointer tags on aarch64. Not
# PR_SET_PDEATHSIG: a worker that outlives its parent is what it must not become.
PRCTL_ALLOWED = (2, 3, 15, 16, 21, 23, 29, 30, 38, 39, 41, 42, 51, 54, 55, 56, 0x53564D41)
FCNTL_REFUSED = (8, 10, 15, 1024, 1026)  # F_SETOWN, F_SETSIG, F_SETOWN_EX (signals), F_SETLEASE, F_NOTIFY (watching)
IOCTL_REFUSED = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing into a terminal
# Families of ioctls: file attributes and encryption ("f", "v", "X"), btrfs and reflinks, block devices, sockets. They
# work on files opened for reading only, which Landlock cannot know.
IOCTL_FAMILIES_REFUSED = (0x6600, 0x7600, 0x5800, 0x9400, 0x1200, 0x8900)
EPERM, ENOSYS = 1, 38
LOAD, EQUAL, AT_LEAST, AND, RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
ALLOW, KILL_PROCESS, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

libc = ctypes.CDLL(None, use_errno=True)


class Unavailable(Exception):
    """Something the confinement needs is not there."""


def syscall(number: int, *arguments: Any) -> int:
    """A raw system call; integers are passed as full words, since libc's `syscall` is variadic."""
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def prctl(option: int, *arguments: int) -> int:
    """`prctl(2)` with all five words given."""
    words = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    result = libc.prctl(ctypes.c_int(option), *words)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def landlock_abi() -> int:
    """The kernel's Landlock version; 0 when it has none or it is switched off."""
    try:
        return syscall(LANDLOCK_CREATE, None, 0, 1)
    except (OSError, AttributeError):
        return 0


def seccomp_available() -> bool:
    """Whether this kernel filters system calls and this file knows the architecture's numbers."""
    if os.uname().machine not in ARCHITECTURES or struct.calcsize("P") != 8 or sys.byteorder != "little":
        return False
    number = numbers(REFUSED)["seccomp"]
    try:  # 2: SECCOMP_GET_ACTION_AVAIL
        return syscall(number, 2, 0, ctypes.byref(ctypes.c_uint32(ERRNO))) == 0
    except OSError:
        return False


def numbers(table: str) -> dict[str, int]:
    """The numbers of this machine's architecture out of one of the tables above."""
    column = ARCHITECTURES[os.uname().machine][1] + 1
    rows = (row.split(":") for row in table.split())
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


def restrict_files(rules: dict[str, list[str]]) -> int:
    """Denies every access to files except what `rules` gives (kind of right to paths); returns Landlock's version.

    A path that does not exist is left out, which only ever takes access away.
    """
    abi = landlock_abi()
    if abi < 1:
        raise Unavailable("the kernel offers no Landlock")
    known = (1 << 13) - 1
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)):
        known |= right if abi >= since else 0
    net = 3 if abi >= 4 else 0  # TCP bind and connect
    scope = 3 if abi >= 6 else 0  # abstract unix sockets, signals to processes outside
    attributes = struct.pack("<QQQ", known, net, scope)
    ruleset = syscall(LANDLOCK_CREATE, attributes, len(attributes), 0)
    for kind, paths in rules.items():
        for path in paths:
            try:
                handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            rights = RIGHTS[kind] & known
            if not stat.S_ISDIR(os.fstat(handle).st_mode):
                rights &= FILE_RIGHTS
            if rights:
                syscall(LANDLOCK_ADD, ruleset, 1, struct.pack("<Qi", rights, handle), 0)
            os.close(handle)
    syscall(LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)
    return abi


def seccomp_program(pid: int, abi: int, exec_words: tuple[int, int, int]) -> bytes:
    """The filter, as an array of BPF instructions.

    Args:
        pid: The own process, the only one that may be signalled or have its limits and priorities changed.
        abi: Landlock's version; below 3 it does not govern truncation, so the filter has to.
        exec_words: The addresses of path, arguments and environment with which the one `execve` will be made. They are
            drawn at random and lost with it, so no later call can repeat them: nothing is ever executed again. That
            matters because exec from a second thread would shed the parent-death signal.
    """

    def step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("<HBBI", code, yes, no, value)

    def give(verdict: int) -> bytes:
        return step(RETURN, verdict)

    def argument(index: int, high: bool = False) -> bytes:
        return step(LOAD, 16 + 8 * index + 4 * high)

    def match(values: tuple[int, ...], verdict: int) -> bytes:
        return b"".join(step(EQUAL, value, 0, 1) + give(verdict) for value in values)

    refuse = give(ERRNO | EPERM)

    def only(index: int, *values: int) -> bytes:
        return argument(index) + match(values, ALLOW) + refuse

    # For all of these the kernel looks at the low word alone, as does the filter.
    itself = {name: only(0, pid) for name in ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")}
    # Limits, scheduling and priority of any process of the same user could be changed by these.
    scheduling = ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr")
    itself |= {name: only(0, 0, pid) for name in scheduling}
    judged = itself | {
        "setpriority": argument(0) + step(EQUAL, 0, 1, 0) + refuse + only(1, 0, pid),
        "ioprio_set": argument(0) + step(EQUAL, 1, 1, 0) + refuse + only(1, 0, pid),
        "prctl": only(0, *PRCTL_ALLOWED),
        "fcntl": argument(1) + match(FCNTL_REFUSED, ERRNO | EPERM) + give(ALLOW),
        "ioctl": argument(1)
        + match(IOCTL_REFUSED, ERRNO | EPERM)
        + step(AND, 0xFF00)
        + match(IOCTL_FAMILIES_REFUSED, ERRNO | EPERM)
        + give(ALLOW),
        # Threads, but no processes. clone3 hides its flags in memory, and libc falls back to clone when it is missing.
        "clone": argument(0) + step(AND, CLONE_THREAD | CLONE_NAMESPACES) + match((CLONE_THREAD,), ALLOW) + refuse,
        "clone3": give(ERRNO | ENOSYS),
        "openat2": give(ERRNO | ENOSYS),
        "execve": b"".join(
            argument(index, high) + step(EQUAL, word >> 32 if high else word & 0xFFFFFFFF, 1, 0) + refuse
            for index, word in enumerate(exec_words)
            for high in (False, True)
        )
        + give(ALLOW),
    }
    if abi < 3:
        # O_RDONLY | O_TRUNC empties a file that may only be read; the mask is O_TRUNC and the two access bits.
        for name, index in (("open", 1), ("openat", 2)):
            judged[name] = argument(index) + step(AND, 0o1003) + match((0o1000,), ERRNO | EPERM) + give(ALLOW)
        judged["truncate"] = refuse

    token = ARCHITECTURES[os.uname().machine][0]
    program = step(LOAD, 4) + step(EQUAL, token, 1, 0) + give(KILL_PROCESS)
    program += step(LOAD, 0) + step(AT_LEAST, FIRST_UNKNOWN, 0, 1) + give(ERRNO | ENOSYS)
    known = numbers(JUDGED)
    for name, body in judged.items():
        if name in known:
            program += step(EQUAL, known[name], 0, len(body) // 8) + body
    return program + match(tuple(numbers(REFUSED).values()), ERRNO | EPERM) + give(ALLOW)


def restrict_calls(program: bytes) -> None:
    """Installs the filter for good."""
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    # SPEC_ALLOW (4): without it old kernels slow the whole process down by a speculation guard.
    syscall(numbers(REFUSED)["seccomp"], 1, 4, header)


def drop_capabilities() -> None:
    """Gives up what root may do beyond owning root's files; no_new_privs keeps exec from giving it back."""
    try:
        prctl(47, 4)  # PR_CAP_AMBIENT, CLEAR_ALL
        for capability in range(64):
            prctl(24, capability)  # PR_CAPBSET_DROP
    except OSError:
        pass  # The numbers end here, or the right to shrink the bounding set is missing already.
    header = struct.pack("<Ii", 0x20080522, 0)
    syscall(numbers(REFUSED)["capset"], header, bytes(24))


def place(size: int) -> int:
    """The address of `size` free bytes at a spot that nobody can guess (about 39 random bits)."""
    room = 1 << 16
    draw = int.from_bytes(os.urandom(8), "little")
    libc.mmap.restype = ctypes.c_void_p
    wish = ctypes.c_void_p((1 << 32) + ((draw >> 13) % (1 << 26)) * 4096)
    # PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS
    start = libc.mmap(wish, ctypes.c_size_t(room + size), 3, 0x22, -1, ctypes.c_long(0))
    if start in (None, ctypes.c_void_p(-1).value):
        raise MemoryError("no memory for the arguments")
    return start + draw % (1 << 13) * 8


def lay_out(path: str, command: list[str], environment: dict[str, str]) -> tuple[tuple[int, int, int], list[Any]]:
    """Puts the arguments of `execve` at random addresses; also returns what has to stay alive until the call."""
    texts = [os.fsencode(each) for each in command]
    variables = [os.fsencode(f"{name}={value}") for name, value in environment.items()]
    words, kept = [place(len(os.fsencode(path)) + 1)], []
    ctypes.memmove(words[0], os.fsencode(path) + b"\0", len(os.fsencode(path)) + 1)
    for strings in (texts, variables):
        array = (ctypes.c_char_p * (len(strings) + 1))(*strings, None)
        words.append(place(ctypes.sizeof(array)))
        ctypes.memmove(words[-1], array, ctypes.sizeof(array))
        kept.append((strings, array))
    return (words[0], words[1], words[2]), kept


def pin_own_proc(names: list[str]) -> list[str]:
    """Opens files of /proc/self and leaves them open: their rules belong to inodes that live only while in use."""
    paths = []
    for name in names:
        path = f"/proc/self/{name}"
        if os.path.exists(path):
            os.set_inheritable(os.open(path, os.O_PATH), True)
            paths.append(path)
    return paths


def launch(config: dict[str, Any]) -> None:
    """Applies everything the configuration asks for and becomes the worker; returns only by an exception."""
    if sys.platform == "linux":
        prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL: also ends a worker that is rendering or looping
    if os.getppid() != config["parent"]:
        raise Unavailable("the parent is gone")
    if os.getsid(0) != os.getpid():
        os.setsid()
    for name, value in config["limits"].items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is not None:
            hard = resource.getrlimit(kind)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (value, value))
    os.chdir(config["folder"])
    command, environment = config["command"], config["env"]
    if not config["confine"]:
        os.execve(command[0], command, environment)
    if not seccomp_available():
        raise Unavailable("no seccomp filters for this kernel and architecture")
    drop_capabilities()
    prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
    words, kept = lay_out(command[0], command, environment)
    rules = dict(config["rules"])
    rules["read"] = rules["read"] + pin_own_proc(config["own_proc"])
    abi = restrict_files(rules)
    restrict_calls(seccomp_program(os.getpid(), abi, words))
    try:
        syscall(numbers(JUDGED)["execve"], *words)
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror, command[0]) from None
    del kept


def main() -> None:
    """Entry point; never returns."""
    try:
        launch(json.loads(sys.argv[1]))
    except BaseException as problem:  # noqa: B036 - nothing may get past this line unconfined
        text = " ".join(f"{type(problem).__name__}: {problem}".split())
        os.write(2, f"sceneact launcher: cannot confine the worker: {text}\n".encode(errors="replace"))
    os._exit(FAILED)


if __name__ == "__main__":
    main()
