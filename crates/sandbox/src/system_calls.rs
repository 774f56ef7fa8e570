//! The system calls that runs make, as a seccomp filter.
//!
//! Any other call fails with ENOSYS, as on a kernel that does not have it. It does not end the process: a
//! call that was forgotten here, or that a new libc makes first, then costs one function and not the
//! records of a run. ENOSYS and not EPERM, because on ENOSYS alone libc falls back to an older call
//! (`clone3` to `clone`, whose flags can be checked here).

use crate::needs::Needs;
use libc::c_long;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;

/// What every run uses: files, memory, threads, waiting, time, and sockets that are open already. (A
/// filter is compiled for each link type that a file turns out to have, through a file in memory.)
#[rustfmt::skip]
const ALWAYS: &[c_long] = &[
    // Files.
    libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev, libc::SYS_pread64,
    libc::SYS_pwrite64, libc::SYS_preadv, libc::SYS_pwritev, libc::SYS_preadv2, libc::SYS_pwritev2,
    libc::SYS_lseek, libc::SYS_close, libc::SYS_close_range, libc::SYS_dup, libc::SYS_dup3,
    libc::SYS_fcntl, libc::SYS_flock, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_syncfs,
    libc::SYS_sync_file_range, libc::SYS_ftruncate, libc::SYS_truncate, libc::SYS_fallocate,
    libc::SYS_copy_file_range, libc::SYS_sendfile, libc::SYS_splice, libc::SYS_fadvise64,
    libc::SYS_readahead, libc::SYS_openat, libc::SYS_openat2, libc::SYS_statx, libc::SYS_fstat,
    libc::SYS_newfstatat, libc::SYS_statfs, libc::SYS_fstatfs, libc::SYS_faccessat,
    libc::SYS_faccessat2, libc::SYS_readlinkat, libc::SYS_getcwd, libc::SYS_getdents64,
    libc::SYS_mkdirat, libc::SYS_unlinkat, libc::SYS_renameat, libc::SYS_renameat2,
    libc::SYS_linkat, libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_utimensat, libc::SYS_umask,
    libc::SYS_pipe2, libc::SYS_inotify_init1, libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    // Memory.
    libc::SYS_munmap, libc::SYS_mremap, libc::SYS_madvise, libc::SYS_brk, libc::SYS_mlock,
    libc::SYS_mlock2, libc::SYS_munlock, libc::SYS_mincore, libc::SYS_msync, libc::SYS_membarrier,
    libc::SYS_memfd_create, libc::SYS_mbind, libc::SYS_get_mempolicy, libc::SYS_set_mempolicy,
    // Waiting and time.
    libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_create1, libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_eventfd2, libc::SYS_futex,
    libc::SYS_futex_waitv, libc::SYS_nanosleep, libc::SYS_clock_nanosleep, libc::SYS_clock_gettime,
    libc::SYS_clock_getres, libc::SYS_gettimeofday, libc::SYS_times, libc::SYS_timer_create,
    libc::SYS_timer_settime, libc::SYS_timer_gettime, libc::SYS_timer_delete,
    libc::SYS_timerfd_create, libc::SYS_timerfd_settime, libc::SYS_timerfd_gettime,
    // Threads, signals, and what a process may know of itself.
    libc::SYS_set_robust_list, libc::SYS_get_robust_list, libc::SYS_rseq, libc::SYS_exit,
    libc::SYS_exit_group, libc::SYS_set_tid_address, libc::SYS_gettid, libc::SYS_getpid,
    libc::SYS_getppid, libc::SYS_getpgid, libc::SYS_getsid, libc::SYS_getuid, libc::SYS_geteuid,
    libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getresuid, libc::SYS_getresgid,
    libc::SYS_getgroups, libc::SYS_capget, libc::SYS_getcpu, libc::SYS_getpriority,
    libc::SYS_sched_yield, libc::SYS_sched_getaffinity, libc::SYS_sched_setaffinity,
    libc::SYS_sched_getattr, libc::SYS_sched_setattr, libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler, libc::SYS_sched_getparam, libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min, libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn, libc::SYS_rt_sigpending, libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigsuspend, libc::SYS_sigaltstack, libc::SYS_restart_syscall, libc::SYS_getrlimit,
    libc::SYS_getrusage, libc::SYS_sysinfo, libc::SYS_uname, libc::SYS_getrandom,
    // Sockets that are open.
    libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg, libc::SYS_recvfrom, libc::SYS_recvmsg,
    libc::SYS_recvmmsg, libc::SYS_getsockopt, libc::SYS_setsockopt, libc::SYS_getsockname,
    libc::SYS_getpeername, libc::SYS_shutdown, libc::SYS_socketpair,
];

/// Older forms of these calls, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLDER: &[c_long] = &[
    libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink,
    libc::SYS_mkdir, libc::SYS_rmdir, libc::SYS_unlink, libc::SYS_rename, libc::SYS_link,
    libc::SYS_chmod, libc::SYS_dup2, libc::SYS_pipe, libc::SYS_poll, libc::SYS_select,
    libc::SYS_epoll_create, libc::SYS_epoll_wait, libc::SYS_eventfd, libc::SYS_time,
    libc::SYS_getpgrp, libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

/// What network outputs use beyond that, to connect again.
const NETWORK: &[c_long] = &[libc::SYS_connect, libc::SYS_bind];

/// What DPDK's drivers use beyond that: memif connects and listens.
const DPDK: &[c_long] = &[
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_accept,
    libc::SYS_signalfd4,
];

/// `PR_SET_VMA` of the kernel: names of memory areas, which libc gives to those of its allocator.
const PR_SET_VMA: libc::c_int = 0x5356_4d41;

/// Operations of prctl(2) that give no rights.
const PRCTL: [libc::c_int; 8] = [
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_TIMERSLACK,
    libc::PR_GET_TIMERSLACK,
    libc::PR_CAPBSET_READ,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_GET_SECCOMP,
    PR_SET_VMA,
];

/// Filters the system calls of all threads. Returns the number of calls that are allowed.
pub(crate) fn apply(needs: &Needs) -> Result<usize, String> {
    if !hw::confine::can_filter_system_calls() {
        return Err("the kernel does not filter system calls".into());
    }
    let arch = std::env::consts::ARCH
        .try_into()
        .map_err(|_| format!("there is no list for {}", std::env::consts::ARCH))?;
    let rules = rules(needs).map_err(|error| error.to_string())?;
    let allowed = rules.len();
    let other = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(rules, other, SeccompAction::Allow, arch)
        .and_then(seccompiler::BpfProgram::try_from)
        .map_err(|error| error.to_string())?;
    seccompiler::apply_filter_all_threads(&filter).map_err(|error| error.to_string())?;
    Ok(allowed)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules(needs: &Needs) -> Result<Rules, seccompiler::BackendError> {
    let mut rules = Rules::new();
    let mut allow = |calls: &[c_long]| {
        for call in calls {
            rules.insert(*call, Vec::new());
        }
    };
    allow(ALWAYS);
    allow(OLDER);
    let mut families = vec![libc::AF_UNIX];
    if needs.network || needs.dpdk {
        allow(NETWORK);
        families.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
    }
    if needs.dpdk {
        allow(DPDK);
    }
    if needs.loads_libraries() {
        allow(&[libc::SYS_mmap, libc::SYS_mprotect]);
    } else {
        // No new code.
        let executable = libc::PROT_EXEC as u64;
        let is_data = rule(&[(2, MaskedEq(executable), 0)])?;
        rules.insert(libc::SYS_mmap, vec![is_data.clone()]);
        rules.insert(libc::SYS_mprotect, vec![is_data]);
    }
    // New threads, but no new processes or namespaces.
    let thread = libc::CLONE_THREAD as u64;
    rules.insert(
        libc::SYS_clone,
        vec![rule(&[(0, MaskedEq(thread), thread)])?],
    );
    // Signals to itself, as abort(3) sends.
    let process = u64::from(std::process::id());
    for call in [libc::SYS_kill, libc::SYS_tgkill] {
        rules.insert(call, vec![rule(&[(0, Eq, process)])?]);
    }
    // Limits of itself.
    rules.insert(libc::SYS_prlimit64, vec![rule(&[(0, Eq, 0)])?]);
    // Typing into the terminal would run commands in the shell behind it.
    rules.insert(
        libc::SYS_ioctl,
        vec![rule(&[(1, Ne, libc::TIOCSTI), (1, Ne, libc::TIOCLINUX)])?],
    );
    let one_of = |values: &[libc::c_int]| {
        let rules = values
            .iter()
            .map(|value| rule(&[(0, Eq, u64::from(value.cast_unsigned()))]));
        rules.collect::<Result<Vec<_>, _>>()
    };
    rules.insert(libc::SYS_prctl, one_of(&PRCTL)?);
    rules.insert(libc::SYS_socket, one_of(&families)?);
    Ok(rules)
}

/// A rule that holds if all conditions on arguments do: number, comparison, value.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = conditions.iter().map(|(argument, comparison, value)| {
        let length = SeccompCmpArgLen::Dword;
        SeccompCondition::new(*argument, length, comparison.clone(), *value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_give_rights_are_in_no_list() {
        let everything = Needs {
            network: true,
            dpdk: true,
            real_time: true,
            ..Needs::default()
        };
        let rules = rules(&everything).unwrap();
        for forbidden in [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_ptrace,
            libc::SYS_process_vm_writev,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_setuid,
            libc::SYS_setresuid,
            libc::SYS_capset,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_init_module,
            libc::SYS_io_uring_setup,
            libc::SYS_keyctl,
            libc::SYS_userfaultfd,
            libc::SYS_clone3,
        ] {
            assert!(!rules.contains_key(&forbidden), "system call {forbidden}");
        }
        let small = super::rules(&Needs::default()).unwrap();
        assert!(!small.contains_key(&libc::SYS_connect));
        assert!(small.len() < rules.len());
    }
}
