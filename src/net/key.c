/* The file of a cluster key: 64 hexadecimal digits and a line end, readable by its owner only. */
#include "net/tcp.h"

#include "base/hex.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { DIGITS = 2 * RT_KEY_BYTES, LONGEST = DIGITS + 32 /* white space around it */ };

static rt_status key_write_all(int fd, const char *text, size_t bytes) {
    while (bytes > 0) {
        ssize_t n = write(fd, text, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return RT_IO;
        text += n;
        bytes -= (size_t)n;
    }
    return fsync(fd) == 0 || errno == EINVAL ? RT_OK : RT_IO;
}

rt_status rt_key_write(const char *path, struct rt_error *err) {
    uint8_t key[RT_KEY_BYTES];
    char text[DIGITS + 1];
    if (getrandom(key, sizeof key, 0) != sizeof key)
        return rt_fail(err, RT_IO, "cannot get random numbers: %s", strerror(errno));
    rt_hex_write(key, sizeof key, text);
    text[DIGITS] = '\n';
    OPENSSL_cleanse(key, sizeof key);
    rt_status status = RT_OK;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        status = errno == EEXIST
                     ? rt_fail(err, RT_BAD_INPUT, "%s: exists already, and a key is never replaced", path)
                     : rt_fail(err, RT_BAD_INPUT, "%s: cannot be written: %s", path, strerror(errno));
    } else {
        status = key_write_all(fd, text, sizeof text);
        if (close(fd) != 0)
            status = RT_IO;
        if (status != RT_OK) {
            rt_fail(err, status, "%s: cannot be written: %s", path, strerror(errno));
            unlink(path);
        }
    }
    OPENSSL_cleanse(text, sizeof text);
    return status;
}

static rt_status key_parse(const char *path, const char *text, size_t bytes, uint8_t *key,
                           struct rt_error *err) {
    static const char space[] = " \t\r\n", mark[] = "\xef\xbb\xbf"; /* of UTF-8, as some editors write it */
    if (bytes >= sizeof mark - 1 && memcmp(text, mark, sizeof mark - 1) == 0)
        text += sizeof mark - 1, bytes -= sizeof mark - 1;
    while (bytes > 0 && memchr(space, text[bytes - 1], sizeof space - 1))
        bytes--;
    while (bytes > 0 && memchr(space, *text, sizeof space - 1))
        text++, bytes--;
    if (bytes != DIGITS || !rt_hex_read(text, RT_KEY_BYTES, key))
        return rt_fail(
            err, RT_BAD_INPUT,
            "%s: is not a cluster key: it must hold %d hexadecimal digits (make one with 'ringtmp keygen "
            "FILE')",
            path, DIGITS);
    return RT_OK;
}

rt_status rt_key_read(const char *path, uint8_t key[RT_KEY_BYTES], struct rt_error *err) {
    char text[LONGEST + 1];
    size_t bytes = 0;
    ssize_t n = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return rt_fail(err, RT_BAD_INPUT, "%s: cannot be read: %s", path, strerror(errno));
    while (bytes < sizeof text && n > 0) {
        n = read(fd, text + bytes, sizeof text - bytes);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n > 0)
            bytes += (size_t)n;
    }
    int error = errno;
    close(fd);
    rt_status status = n < 0 ? rt_fail(err, RT_BAD_INPUT, "%s: cannot be read: %s", path, strerror(error))
                             : key_parse(path, text, bytes, key, err);
    OPENSSL_cleanse(text, sizeof text);
    return status;
}
