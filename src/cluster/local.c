/* Nodes on this machine; see local.h. */
#include "cluster/local.h"

#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* The node finds its lifeline behind the standard streams. Every other descriptor of ours closes on exec. */
enum { LIFELINE = 3, SAFE = 10 };

enum { ARGUMENTS = 32, TEXT = 48 };

static int local_start_process(const char *program, char **argv, int lifeline, pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    int code = posix_spawn_file_actions_init(&actions);
    if (code)
        return code;
    code = posix_spawnattr_init(&attributes);
    if (code) {
        posix_spawn_file_actions_destroy(&actions);
        return code;
    }
    /* Drops the node's standard output, which would mix with ours. Its errors are kept. */
    code = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!code)
        code = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (!code)
        code = posix_spawn_file_actions_adddup2(&actions, lifeline, LIFELINE);
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!code)
        code = posix_spawnp(pid, program, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

/* Both ends close on exec; the child's lies where no dup2 overwrites it. */
static int local_make_lifeline(int ends[2]) {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return errno;
    int moved = fcntl(ends[1], F_DUPFD_CLOEXEC, SAFE), code = moved < 0 ? errno : 0;
    close(ends[1]);
    ends[1] = moved;
    if (moved < 0)
        close(ends[0]);
    return code;
}

rt_status rt_local_start(const struct rt_local_settings *settings, struct rt_local *local,
                         struct rt_error *err) {
    const char *program = settings->program ? settings->program : "ringtmp";
    char threads[TEXT], memory[TEXT], slowdown[RT_PACE_TEXT], lifeline[TEXT];
    const char *argv[ARGUMENTS] = {program, "node", "--listen", "127.0.0.1:0"};
    size_t count = 4;
    snprintf(threads, sizeof threads, "%zu", settings->threads);
    snprintf(memory, sizeof memory, "%" PRIu64, settings->memory);
    if (settings->pace)
        rt_pace_print(settings->pace, slowdown);
    snprintf(lifeline, sizeof lifeline, "%d", LIFELINE);
    const char *const pairs[][2] = {
        {"--lifeline", lifeline},
        {"--name", settings->name},
        {"--threads", settings->threads ? threads : NULL},
        {"--memory", memory},
        {"--slowdown", settings->pace ? slowdown : NULL},
        {"--bandwidth", settings->link.bandwidth},
        {"--latency", settings->link.latency},
        {"--key", settings->key_file},
        {"--cert", settings->certificate},
        {"--cert-key", settings->private_key},
        {"--ca", settings->authority},
        {"--cache", settings->cache},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][1]) {
            argv[count++] = pairs[i][0];
            argv[count++] = pairs[i][1];
        }
    *local = (struct rt_local){.lifeline = -1};
    snprintf(local->name, sizeof local->name, "%s", settings->name ? settings->name : "without a name");
    int ends[2], code = local_make_lifeline(ends);
    if (code)
        return rt_fail(err, RT_IO, "cannot create the pipe to a local node: %s", strerror(code));
    code = local_start_process(program, (char **)argv, ends[1], &local->pid);
    close(ends[1]);
    if (code) {
        close(ends[0]);
        local->pid = 0;
        return rt_fail(err, code == ENOENT ? RT_BAD_INPUT : RT_IO, "cannot start a local node with '%s': %s",
                       program, strerror(code));
    }
    local->lifeline = ends[0];
    return RT_OK;
}

static rt_status local_fail_stopped(struct rt_error *err) {
    return rt_fail(err, RT_INTERRUPTED, "interrupted while local nodes were started");
}

/* What became of a process that has let go of its lifeline: it is about to end, or has. */
static void local_describe_end(struct rt_local *local, char how[RT_HOW_ROOM]) {
    for (double until = rt_clock_wall() + 1; local->pid > 0 && rt_clock_wall() < until;) {
        if (waitpid(local->pid, &local->status, WNOHANG) == local->pid) {
            local->pid = 0;
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    if (local->pid != 0)
        snprintf(how, RT_HOW_ROOM, "ended");
    else if (WIFSIGNALED(local->status))
        snprintf(how, RT_HOW_ROOM, "was ended by signal %d (%s)", WTERMSIG(local->status),
                 strsignal(WTERMSIG(local->status)));
    else
        snprintf(how, RT_HOW_ROOM, "ended with status %d", WEXITSTATUS(local->status));
}

/* A signal that ended it may have been meant for all of us. */
static rt_status local_fail_ended(const struct rt_local *local, const char *how, const char *when,
                                  const atomic_int *stop, struct rt_error *err) {
    if (stop && atomic_load(stop))
        return local_fail_stopped(err);
    return rt_fail(err, RT_FAILED, "the local node %s %s %s", local->name, how, when);
}

/* "=ADDRESS" or "!SENTENCE", without the end of the line */
static rt_status local_take_report(struct rt_local *local, const char *line, struct rt_error *err) {
    if (line[0] == '!')
        return rt_fail(err, RT_FAILED, "the local node %s cannot start: %s", local->name, line + 1);
    size_t bytes = strlen(line);
    if (line[0] != '=' || bytes > sizeof local->address)
        return rt_fail(err, RT_FAILED, "the local node %s did not report its address: '%.60s'", local->name,
                       line);
    memcpy(local->address, line + 1, bytes);
    return RT_OK;
}

rt_status rt_local_wait(struct rt_local *local, double until, const atomic_int *stop, struct rt_error *err) {
    char line[600], how[RT_HOW_ROOM];
    size_t used = 0;
    for (;;) {
        double left = until - rt_clock_wall();
        if (stop && atomic_load(stop))
            return local_fail_stopped(err);
        if (left <= 0)
            return rt_fail(err, RT_FAILED, "the local node %s has not started in time", local->name);
        struct pollfd wait = {.fd = local->lifeline, .events = POLLIN};
        if (poll(&wait, 1, left < 0.1 ? (int)(left * 1000) + 1 : 100) <= 0)
            continue;
        ssize_t got = read(local->lifeline, line + used, sizeof line - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            local_describe_end(local, how);
            return local_fail_ended(local, how, "before it reported its address", stop, err);
        }
        used += (size_t)got;
        line[used] = 0;
        char *end = strchr(line, '\n');
        if (end || used == sizeof line - 1) {
            if (end)
                *end = 0;
            return local_take_report(local, line, err);
        }
    }
}

bool rt_local_ended(struct rt_local *local, double seconds, char how[RT_HOW_ROOM]) {
    struct pollfd look = {.fd = local->lifeline, .events = POLLIN};
    char ignored[16];
    if (poll(&look, 1, (int)(seconds * 1000)) <= 0 || read(look.fd, ignored, sizeof ignored) != 0)
        return false;
    local_describe_end(local, how);
    return true;
}

rt_status rt_local_check(struct rt_local *locals, size_t count, const atomic_int *stop,
                         struct rt_error *err) {
    char how[RT_HOW_ROOM];
    for (size_t i = 0; i < count; i++)
        if (!locals[i].given_up && rt_local_ended(&locals[i], 0, how))
            return local_fail_ended(&locals[i], how, "while the cluster was formed", stop, err);
    return RT_OK;
}

/* Collects the process if it has ended; whether it has. */
static bool local_reap(struct rt_local *local) {
    if (local->pid > 0) {
        pid_t got = waitpid(local->pid, NULL, WNOHANG);
        if (got == local->pid || (got < 0 && errno != EINTR))
            local->pid = 0;
    }
    return local->pid == 0;
}

/* Waits until all have ended, at most until the given time; whether they have. */
static bool local_wait_ended(struct rt_local *locals, size_t count, double until) {
    for (;;) {
        size_t ended = 0;
        for (size_t i = 0; i < count; i++)
            ended += local_reap(&locals[i]);
        if (ended == count)
            return true;
        if (rt_clock_wall() >= until)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

void rt_local_end(struct rt_local *locals, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (locals[i].lifeline >= 0)
            close(locals[i].lifeline);
        locals[i].lifeline = -1;
    }
    if (local_wait_ended(locals, count, rt_clock_wall() + 2))
        return;
    for (size_t i = 0; i < count; i++)
        if (locals[i].pid > 0)
            kill(locals[i].pid, SIGKILL);
    local_wait_ended(locals, count, rt_clock_wall() + 2);
}

rt_status rt_lifeline_report(int lifeline, const char *address, const char *sentence, struct rt_error *err) {
    char line[600];
    int length = snprintf(line, sizeof line - 1, "%c%s", sentence ? '!' : '=', sentence ? sentence : address);
    size_t bytes = length > 0 && (size_t)length < sizeof line - 1 ? (size_t)length : sizeof line - 2;
    line[bytes++] = '\n';
    for (size_t sent = 0; sent < bytes;) {
        ssize_t got = write(lifeline, line + sent, bytes - sent);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EPIPE || errno == ECONNRESET))
            return RT_OK; /* the master is gone: there is no reader */
        if (got <= 0)
            return rt_fail(err, RT_IO, "the lifeline cannot be written to: %s", strerror(errno));
        sent += (size_t)got;
    }
    return RT_OK;
}
