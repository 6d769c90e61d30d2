/*
 * freeze ORDERS COMMAND WORD...: runs the command, and stops single threads of the processes that come of it,
 * as the named pipe ORDERS says: "+ID" stops the thread with this id, "-ID" lets it go on. The other threads
 * of the process run on: its heartbeats too. So the thread must not be stopped while it holds a lock that
 * they need: it is where it asks for its own CPU time, as it does between two operations. Ends with the
 * command's status. A parent may trace its descendants where others may not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what) {
    fprintf(stderr, "freeze: %s: %s\n", what, strerror(errno));
}

enum { LOOKS = 50000 };

/* Whether the thread, which has stopped with this status, is about to ask for its CPU time. */
static int asks_for_time(pid_t thread, int status) {
    struct __ptrace_syscall_info call;
    return WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80) &&
           ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof call, &call) > 0 &&
           call.op == PTRACE_SYSCALL_INFO_ENTRY && call.entry.nr == SYS_clock_gettime &&
           call.entry.args[0] == CLOCK_THREAD_CPUTIME_ID;
}

/* From one system call to the next until it asks; one that sleeps for long is stopped where it sleeps. */
static int stop(pid_t thread) {
    int status = 0, found = 0;
    if (ptrace(PTRACE_SEIZE, thread, NULL, PTRACE_O_TRACESYSGOOD) != 0 ||
        ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0 || waitpid(thread, &status, __WALL) != thread)
        return -1;
    for (int look = 0; look < LOOKS && !asks_for_time(thread, status); look++) {
        if (ptrace(PTRACE_SYSCALL, thread, NULL, NULL) != 0)
            return -1;
        for (int wait = 0; (found = waitpid(thread, &status, __WALL | WNOHANG)) == 0 && wait < 20000; wait++)
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        if (found == 0)
            return ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0 &&
                           waitpid(thread, &status, __WALL) == thread
                       ? 0
                       : -1;
        if (found < 0 || !WIFSTOPPED(status))
            return -1;
    }
    return 0;
}

static void obey(const char *order) {
    const pid_t thread = (pid_t)strtol(order + 1, NULL, 10);
    if (order[0] == '-' && ptrace(PTRACE_DETACH, thread, NULL, NULL) != 0)
        fail("cannot let a thread go on");
    if (order[0] == '+' && stop(thread) != 0)
        fail("cannot stop a thread");
}

int main(int argc, char **argv) {
    const int orders = argc > 2 ? open(argv[1], O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1;
    if (orders < 0) {
        fail("the orders");
        return 127;
    }
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execvp(argv[2], argv + 2);
        fail(argv[2]);
        _exit(127);
    }
    for (;;) {
        char line[64] = {0};
        int status = 0;
        if (waitpid(child, &status, WNOHANG) == child && !WIFSTOPPED(status))
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (read(orders, line, sizeof line - 1) > 0)
            obey(line);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}
