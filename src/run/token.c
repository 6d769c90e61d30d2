/* The file that keeps the token of a run: its hexadecimal digits and a newline. */
#include "run/token.h"

#include "base/file.h"
#include "base/hex.h"
#include "cluster/cluster.h"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { PATH_ROOM = 4096, DIGITS = 2 * RT_TOKEN_BYTES };

static rt_status token_path(const char *dir, char path[PATH_ROOM], struct rt_error *err) {
    if (snprintf(path, PATH_ROOM, "%s/token", dir) >= PATH_ROOM)
        return rt_fail(err, RT_BAD_INPUT, "%s: the path is too long", dir);
    return RT_OK;
}

static bool token_read(const char *path, uint8_t token[RT_TOKEN_BYTES]) {
    char text[DIGITS + 2];
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return false;
    const ssize_t got = read(file, text, sizeof text);
    close(file);
    return got == DIGITS + 1 && text[DIGITS] == '\n' && rt_hex_read(text, RT_TOKEN_BYTES, token);
}

static rt_status token_write(const char *path, const uint8_t token[RT_TOKEN_BYTES], struct rt_error *err) {
    struct rt_writer writer;
    char text[DIGITS + 1];
    rt_hex_write(token, RT_TOKEN_BYTES, text);
    text[DIGITS] = '\n';
    RT_TRY(rt_writer_open_private(path, &writer, err));
    rt_writer_write(&writer, text, sizeof text);
    return rt_writer_commit(&writer, err);
}

rt_status rt_token_take(const char *checkpoint_dir, uint8_t token[RT_TOKEN_BYTES], struct rt_error *err) {
    char path[PATH_ROOM];
    RT_TRY(token_path(checkpoint_dir, path, err));
    if (token_read(path, token))
        return RT_OK;
    RT_TRY(rt_cluster_draw_token(token, err));
    RT_TRY(rt_make_directory(checkpoint_dir, err));
    return token_write(path, token, err);
}

void rt_token_remove(const char *checkpoint_dir) {
    char path[PATH_ROOM];
    if (token_path(checkpoint_dir, path, NULL) == RT_OK)
        unlink(path);
}
