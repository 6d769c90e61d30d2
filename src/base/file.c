/*
 * Files: mapped for reading, replaced atomically on writing. A reader of a file that we write sees the old
 * content or the new one, never half of it, also when the machine loses power on the way.
 */
#define _GNU_SOURCE /* sync_file_range */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* After so many bytes the system is told to begin to write them. */
enum { SYNC_BYTES = 1 << 20 };

rt_status rt_map_open(const char *path, struct rt_map *map, struct rt_error *err) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return rt_fail(err, errno == EIO ? RT_IO : RT_BAD_INPUT, "%s: %s", path, strerror(errno));
    struct stat info;
    if (fstat(file, &info) != 0) {
        rt_status status = rt_fail(err, RT_IO, "%s: %s", path, strerror(errno));
        close(file);
        return status;
    }
    if (!S_ISREG(info.st_mode)) {
        close(file);
        return rt_fail(err, RT_BAD_INPUT, "%s: %s", path,
                       S_ISDIR(info.st_mode) ? "is a directory" : "is not a regular file");
    }
    if ((uintmax_t)info.st_size > SIZE_MAX / 2) {
        close(file);
        return rt_fail(err, RT_NO_MEMORY, "%s: is too large for this machine to map", path);
    }
    size_t bytes = (size_t)info.st_size;
    void *data = NULL;
    if (bytes) {
        data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
        if (data == MAP_FAILED) {
            rt_status status = rt_fail(err, errno == ENOMEM ? RT_NO_MEMORY : RT_IO,
                                       "%s: cannot be mapped: %s", path, strerror(errno));
            close(file);
            return status;
        }
    }
    if (!data) {
        close(file);
        file = -1;
    }
    *map = (struct rt_map){.data = data, .bytes = bytes, .file = file, .changed = info.st_mtim};
    return RT_OK;
}

void rt_map_close(struct rt_map *map) {
    if (map->data) {
        munmap((void *)map->data, map->bytes);
        close(map->file);
    }
    *map = (struct rt_map){.data = NULL};
}

rt_status rt_map_read(const struct rt_map *map, const char *path, size_t at, void *buffer, size_t bytes,
                      struct rt_error *err) {
    uint8_t *to = buffer;
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(map->file, to + done, bytes - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return rt_fail(err, RT_IO, "%s: cannot be read: %s", path, strerror(errno));
        if (got == 0)
            return rt_fail(err, RT_IO,
                           "%s: was cut short while it was read: it had %zu bytes and ends at %zu", path,
                           map->bytes, at + done);
        done += (size_t)got;
    }
    return RT_OK;
}

static void file_release_writer(struct rt_writer *writer) {
    free(writer->path);
    free(writer->temporary);
    writer->path = writer->temporary = NULL;
    writer->file = NULL;
}

/* Remembers the first failure of a writer. */
static void file_note_failure(struct rt_writer *writer, int error) {
    if (writer->status == RT_OK)
        writer->status = rt_fail(&writer->first, RT_IO, "%s: %s", writer->path, strerror(error));
}

/* Opens a new file beside path. The process number tells apart two processes that write the same path; the
 * counter, files left by a crash. The file is locked while it is open, so a temporary without a lock is
 * abandoned and may already have been removed by another process. */
static int file_open_temporary(const char *path, mode_t mode, char *temporary, size_t room) {
    for (int i = 0; i < 1000; i++) {
        struct stat info;
        snprintf(temporary, room, "%s.%ld-%d.tmp", path, (long)getpid(), i);
        int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (file < 0 && errno != EEXIST)
            return file;
        if (file < 0)
            continue;
        (void)flock(file, LOCK_EX); /* some file systems have none: nothing is removed there */
        if (fstat(file, &info) != 0 || info.st_nlink > 0)
            return file;
        close(file);
    }
    return -1;
}

static rt_status file_open_writer(const char *path, mode_t mode, struct rt_writer *writer,
                                  struct rt_error *err) {
    *writer = (struct rt_writer){.status = RT_OK};
    /* A device or a pipe cannot be replaced by a file: it is written to directly. */
    struct stat info;
    bool direct = false;
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode))
            return rt_fail(err, RT_BAD_INPUT, "%s: is a directory", path);
        direct = !S_ISREG(info.st_mode);
    }
    size_t room = strlen(path) + 48;
    writer->path = strdup(path);
    writer->temporary = direct ? NULL : malloc(room);
    if (!writer->path || (!direct && !writer->temporary)) {
        file_release_writer(writer);
        return rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to write it", path);
    }
    int file =
        direct ? open(path, O_WRONLY | O_CLOEXEC) : file_open_temporary(path, mode, writer->temporary, room);
    writer->file = file < 0 ? NULL : fdopen(file, "wb");
    if (!writer->file) {
        rt_status status = rt_fail(err, RT_IO, "%s: cannot be written: %s", path, strerror(errno));
        if (file >= 0) {
            close(file);
            if (!direct)
                unlink(writer->temporary);
        }
        file_release_writer(writer);
        return status;
    }
    return RT_OK;
}

rt_status rt_writer_open(const char *path, struct rt_writer *writer, struct rt_error *err) {
    return file_open_writer(path, 0666, writer, err);
}

rt_status rt_writer_open_private(const char *path, struct rt_writer *writer, struct rt_error *err) {
    return file_open_writer(path, 0600, writer, err);
}

/* The system begins to write what has come, so that little is left to wait for when it is synced. */
static void file_begin_sync(struct rt_writer *writer) {
#ifdef SYNC_FILE_RANGE_WRITE
    if (!writer->temporary || writer->bytes - writer->begun < SYNC_BYTES)
        return;
    if (fflush(writer->file) != 0) { /* what it could not write is gone from its buffer */
        file_note_failure(writer, errno);
        return;
    }
    (void)sync_file_range(fileno(writer->file), (off_t)writer->begun, (off_t)(writer->bytes - writer->begun),
                          SYNC_FILE_RANGE_WRITE); /* an advice: what it could not do is seen when syncing */
    writer->begun = writer->bytes;
#else
    (void)writer;
#endif
}

void rt_writer_write(struct rt_writer *writer, const void *data, size_t bytes) {
    if (writer->status != RT_OK || bytes == 0)
        return;
    errno = 0;
    if (fwrite(data, 1, bytes, writer->file) != bytes) {
        file_note_failure(writer, errno ? errno : EIO);
        return;
    }
    writer->bytes += bytes;
    writer->synced = false;
    file_begin_sync(writer);
}

void rt_writer_amend(struct rt_writer *writer, uint64_t offset, const void *data, size_t bytes) {
    if (writer->status != RT_OK)
        return;
    errno = 0;
    writer->synced = false;
    if (fseeko(writer->file, (off_t)offset, SEEK_SET) != 0 || fwrite(data, 1, bytes, writer->file) != bytes ||
        fseeko(writer->file, 0, SEEK_END) != 0)
        file_note_failure(writer, errno ? errno : EIO);
}

/* The directory that holds path; to be freed. */
static char *file_directory_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
}

/* Makes the new name in path's directory survive a power cut. */
static int file_sync_directory(const char *path) {
    char *directory = file_directory_of(path);
    if (!directory)
        return ENOMEM;
    int error = 0, file = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(directory);
    /* Syncing fails for a directory that may be written but not read, and with EINVAL on some file systems:
     * nothing more can be done then. */
    if (file < 0)
        return errno == EACCES ? 0 : errno;
    if (fsync(file) != 0 && errno != EINVAL)
        error = errno;
    close(file);
    return error;
}

rt_status rt_writer_sync(struct rt_writer *writer, struct rt_error *err) {
    if (fflush(writer->file) != 0)
        file_note_failure(writer, errno);
    if (writer->status == RT_OK && writer->temporary && !writer->synced && fsync(fileno(writer->file)) != 0)
        file_note_failure(writer, errno);
    writer->synced = writer->status == RT_OK;
    return writer->status == RT_OK ? RT_OK : rt_fail(err, writer->status, "%s", writer->first.text);
}

rt_status rt_writer_commit(struct rt_writer *writer, struct rt_error *err) {
    rt_writer_sync(writer, NULL);
    /* It stays locked until it has its name: see rt_remove_temporaries. */
    const int lock = fcntl(fileno(writer->file), F_DUPFD_CLOEXEC, 0);
    if (fclose(writer->file) != 0)
        file_note_failure(writer, errno);
    if (writer->temporary) {
        if (writer->status == RT_OK && rename(writer->temporary, writer->path) != 0)
            file_note_failure(writer, errno);
        if (writer->status != RT_OK) {
            unlink(writer->temporary);
        } else {
            int error = file_sync_directory(writer->path);
            if (error)
                file_note_failure(writer, error);
        }
    }
    if (lock >= 0)
        close(lock);
    file_release_writer(writer);
    return writer->status == RT_OK ? RT_OK : rt_fail(err, writer->status, "%s", writer->first.text);
}

void rt_writer_abandon(struct rt_writer *writer) {
    if (!writer->file)
        return;
    fclose(writer->file);
    if (writer->temporary)
        unlink(writer->temporary);
    file_release_writer(writer);
}

/* Whether a name is one that file_open_temporary makes for the file `base`. */
static bool file_is_temporary(const char *name, const char *base) {
    static const char digits[] = "0123456789";
    const size_t length = strlen(base);
    if (strncmp(name, base, length) != 0 || name[length] != '.')
        return false;
    const char *rest = name + length + 1;
    const size_t process = strspn(rest, digits);
    if (process == 0 || rest[process] != '-')
        return false;
    rest += process + 1;
    const size_t count = strspn(rest, digits);
    return count > 0 && strcmp(rest + count, ".tmp") == 0;
}

/* Whether the name still refers to a file that is open here. */
static bool file_is_named(int directory, const char *name, int file) {
    struct stat held, there;
    return fstat(file, &held) == 0 && fstatat(directory, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

/* A writer that has made its file but not locked it yet finds it gone and makes another. A writer whose lock
 * is gone has renamed the file, and may have made another of the same name. */
void rt_remove_temporaries(const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char *directory = file_directory_of(path);
    DIR *entries = directory ? opendir(directory) : NULL;
    free(directory);
    if (!entries)
        return;
    const struct dirent *entry;
    while ((entry = readdir(entries))) {
        if (!file_is_temporary(entry->d_name, base))
            continue;
        int file = openat(dirfd(entries), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0 &&
            file_is_named(dirfd(entries), entry->d_name, file))
            unlinkat(dirfd(entries), entry->d_name, 0);
        if (file >= 0)
            close(file);
    }
    closedir(entries);
}

/* Makes one directory; its parent exists. */
static rt_status file_make_directory(const char *path, bool *made, struct rt_error *err) {
    *made = mkdir(path, 0777) == 0;
    if (*made) {
        int error = file_sync_directory(path);
        return error ? rt_fail(err, RT_IO, "%s: cannot be made: %s", path, strerror(error)) : RT_OK;
    }
    /* Another process may make it at the same moment, so what counts is whether it exists afterwards. */
    int error = errno;
    struct stat info;
    if (stat(path, &info) != 0)
        return rt_fail(err, RT_IO, "%s: cannot be made: %s", path, strerror(error));
    return S_ISDIR(info.st_mode) ? RT_OK : rt_fail(err, RT_IO, "%s: is not a directory", path);
}

rt_status rt_claim_directory(const char *path, bool *made, struct rt_error *err) {
    if (!*path)
        return rt_fail(err, RT_BAD_INPUT, "a directory needs a name");
    char *part = strdup(path);
    if (!part)
        return rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to make it", path);
    size_t length = strlen(part);
    while (length > 1 && part[length - 1] == '/')
        part[--length] = 0;
    rt_status status = RT_OK;
    for (char *end = part + 1; status == RT_OK; end++) {
        if (*end && *end != '/')
            continue;
        char kept = *end;
        *end = 0;
        status = file_make_directory(part, made, err);
        *end = kept;
        if (!kept)
            break;
    }
    free(part);
    return status;
}

rt_status rt_make_directory(const char *path, struct rt_error *err) {
    bool made;
    return rt_claim_directory(path, &made, err);
}
