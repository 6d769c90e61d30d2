/*
 * Who is at the other end of a connection within this machine, as the system says, and not as the peer does.
 * The system lists all its connections, with the user and the socket of each end; a process that has that
 * socket open is the one we talk to. What cannot be found out is nobody.
 */
#include "net/tcp_owner.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { END_ROOM = 40 }; /* 32 digits, a colon, four digits */

/* One end as the system's list has it: words of the address as numbers of this machine, the port as one. */
static bool print_end(const struct sockaddr_storage *name, char text[END_ROOM]) {
    uint32_t words[4];
    if (name->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)name;
        memcpy(words, &in->sin_addr, 4);
        snprintf(text, END_ROOM, "%08X:%04X", words[0], ntohs(in->sin_port));
        return true;
    }
    if (name->ss_family != AF_INET6)
        return false;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)name;
    memcpy(words, &in6->sin6_addr, 16);
    snprintf(text, END_ROOM, "%08X%08X%08X%08X:%04X", words[0], words[1], words[2], words[3],
             ntohs(in6->sin6_port));
    return true;
}

bool rt_owner_find(int fd, struct rt_owner *owner) {
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
    char here[END_ROOM], there[END_ROOM], line[512], local[END_ROOM], remote[END_ROOM];
    if (getsockname(fd, (struct sockaddr *)&own, &own_bytes) != 0 ||
        getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) != 0 || !print_end(&own, here) ||
        !print_end(&peer, there))
        return false;
    FILE *list = fopen(own.ss_family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6", "re");
    bool found = false;
    while (list && !found && fgets(line, sizeof line, list))
        found = sscanf(line, " %*[^:]: %39s %39s %*s %*s %*s %*s %lu %*s %lu", local, remote, &owner->user,
                       &owner->socket) == 4 &&
                strcmp(local, there) == 0 && strcmp(remote, here) == 0 && owner->socket != 0;
    if (list)
        fclose(list);
    return found;
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
