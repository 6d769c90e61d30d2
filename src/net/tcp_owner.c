/*
 * Which process is at the other end of a connection within this machine, as reported by the system and not by
 * the peer. The system knows the user and the socket of each end; a process that has that socket open is the
 * peer. The system is asked for the one socket (sock_diag). If it does not support such questions, its list
 * of all connections is read, which takes longer the more there are. A peer that cannot be found is unknown.
 */
#include "net/tcp_owner.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#endif

/* A socket by its own end and the other end. */
struct ends {
    struct sockaddr_storage own, other;
};

/* Converts an IPv4 address that an IPv6 socket reports to IPv4. */
static void owner_unmap(struct sockaddr_storage *end) {
    struct sockaddr_in6 in6;
    memcpy(&in6, end, sizeof in6);
    if (end->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr))
        return;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = in6.sin6_port};
    memcpy(&in.sin_addr, in6.sin6_addr.s6_addr + 12, sizeof in.sin_addr);
    memset(end, 0, sizeof *end);
    memcpy(end, &in, sizeof in);
}

static bool owner_get_ends(int fd, struct ends *ends) {
    socklen_t own_bytes = sizeof ends->own, other_bytes = sizeof ends->other;
    memset(ends, 0, sizeof *ends);
    if (getsockname(fd, (struct sockaddr *)&ends->own, &own_bytes) != 0 ||
        getpeername(fd, (struct sockaddr *)&ends->other, &other_bytes) != 0)
        return false;
    owner_unmap(&ends->own);
    owner_unmap(&ends->other);
    return ends->own.ss_family == ends->other.ss_family &&
           (ends->own.ss_family == AF_INET || ends->own.ss_family == AF_INET6);
}

/* ---- asking for one socket ---- */

#if defined(__linux__)
static void owner_put_end(const struct sockaddr_storage *end, uint32_t address[4], uint16_t *port) {
    if (end->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)end;
        memcpy(address, &in->sin_addr, sizeof in->sin_addr);
        *port = in->sin_port;
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)end;
        memcpy(address, &in6->sin6_addr, sizeof in6->sin6_addr);
        *port = in6->sin6_port;
    }
}

/* The answer to one question. A missing socket and a system without this feature cannot be told apart. If
 * there is no such connection, the system may report a listener. */
static bool owner_take_answer(int asked, const struct inet_diag_sockid *id, struct rt_owner *owner) {
    union {
        struct nlmsghdr head;
        char bytes[512];
    } got;
    const ssize_t n = recv(asked, &got, sizeof got, MSG_DONTWAIT);
    const struct inet_diag_msg *found = NLMSG_DATA(&got.head);
    if (n < (ssize_t)NLMSG_LENGTH(sizeof *found) || got.head.nlmsg_len < NLMSG_LENGTH(sizeof *found) ||
        got.head.nlmsg_type != SOCK_DIAG_BY_FAMILY || found->id.idiag_sport != id->idiag_sport ||
        found->id.idiag_dport != id->idiag_dport || found->idiag_inode == 0)
        return false;
    *owner = (struct rt_owner){.user = found->idiag_uid, .socket = found->idiag_inode};
    return true;
}

static bool owner_ask(const struct ends *ends, struct rt_owner *owner) {
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } question = {.head = {.nlmsg_len = sizeof question,
                           .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                           .nlmsg_flags = NLM_F_REQUEST},
                  .body = {.sdiag_family = (uint8_t)ends->own.ss_family,
                           .sdiag_protocol = IPPROTO_TCP,
                           .idiag_states = UINT32_MAX,
                           .id = {.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
    struct inet_diag_sockid *id = &question.body.id;
    owner_put_end(&ends->own, id->idiag_src, &id->idiag_sport);
    owner_put_end(&ends->other, id->idiag_dst, &id->idiag_dport);
    if (ends->own.ss_family == AF_INET6) /* of an address that belongs to one interface */
        id->idiag_if = ((const struct sockaddr_in6 *)&ends->own)->sin6_scope_id;
    const int asked = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (asked < 0)
        return false;
    const bool found = send(asked, &question, sizeof question, 0) == (ssize_t)sizeof question &&
                       owner_take_answer(asked, id, owner);
    close(asked);
    return found;
}
#else
static bool owner_ask(const struct ends *ends, struct rt_owner *owner) {
    (void)ends, (void)owner;
    return false;
}
#endif

/* ---- looking through all of them ---- */

enum { END_ROOM = 40 }; /* 32 digits, a colon, four digits */

/* One end as the system's list has it: words of the address as numbers of this machine, the port as one
 * number. An IPv4 address is in the list of IPv6 if the socket is IPv6. */
static void owner_print_end(const struct sockaddr_storage *end, bool newer, char text[END_ROOM]) {
    uint32_t words[4];
    if (end->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)end;
        memcpy(words, &in->sin_addr, 4);
        snprintf(text, END_ROOM, "%s%08X:%04X", newer ? "0000000000000000FFFF0000" : "", words[0],
                 ntohs(in->sin_port));
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)end;
        memcpy(words, &in6->sin6_addr, 16);
        snprintf(text, END_ROOM, "%08X%08X%08X%08X:%04X", words[0], words[1], words[2], words[3],
                 ntohs(in6->sin6_port));
    }
}

static bool owner_search_list(const struct ends *ends, bool newer, struct rt_owner *owner) {
    char own[END_ROOM], other[END_ROOM], line[512], local[END_ROOM], remote[END_ROOM];
    owner_print_end(&ends->own, newer, own);
    owner_print_end(&ends->other, newer, other);
    FILE *list = fopen(newer ? "/proc/net/tcp6" : "/proc/net/tcp", "re");
    bool found = false;
    while (list && !found && fgets(line, sizeof line, list))
        found = sscanf(line, " %*[^:]: %39s %39s %*s %*s %*s %*s %lu %*s %lu", local, remote, &owner->user,
                       &owner->socket) == 4 &&
                strcmp(local, own) == 0 && strcmp(remote, other) == 0 && owner->socket != 0;
    if (list)
        fclose(list);
    return found;
}

bool rt_owner_find(int fd, struct rt_owner *owner) {
    struct ends ours;
    struct rt_owner self;
    if (!owner_get_ends(fd, &ours))
        return false;
    const struct ends theirs = {.own = ours.other, .other = ours.own};
    if (owner_ask(&theirs, owner))
        return true;
    if (owner_ask(&ours, &self)) /* the system supports such questions: the other end does not exist */
        return false;
    return owner_search_list(&theirs, false, owner) || owner_search_list(&theirs, true, owner);
}

bool rt_owner_is(const struct rt_owner *owner, uint32_t process) {
    char path[40], wanted[40], target[40];
    snprintf(path, sizeof path, "/proc/%lu/fd", (unsigned long)process);
    snprintf(wanted, sizeof wanted, "socket:[%lu]", owner->socket);
    DIR *files = opendir(path);
    bool found = false;
    for (const struct dirent *entry; files && !found && (entry = readdir(files));) {
        const ssize_t n = readlinkat(dirfd(files), entry->d_name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = 0;
        found = strcmp(target, wanted) == 0;
    }
    if (files)
        closedir(files);
    return found;
}
