/*
 * freeze ORDERS COMMAND WORD...: runs the command, and stops single threads of the processes that come of it,
 * as the named pipe ORDERS says: "+ID" stops the thread with this id, "-ID" lets it go on. The other threads
 * of the process run on: its heartbeats too. Ends with the command's status. A parent may trace its
 * descendants where others may not.
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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what) {
    fprintf(stderr, "freeze: %s: %s\n", what, strerror(errno));
}

static void obey(const char *order) {
    const pid_t thread = (pid_t)strtol(order + 1, NULL, 10);
    int status;
    if (order[0] == '-') {
        if (ptrace(PTRACE_DETACH, thread, NULL, NULL) != 0)
            fail("cannot let a thread go on");
    } else if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0 ||
               ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0 ||
               waitpid(thread, &status, __WALL) != thread) {
        fail("cannot stop a thread");
    }
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
