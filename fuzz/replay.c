/*
 * Replays corpora through a fuzz target, where there is no libFuzzer: every file of the directories (or every
 * file) named on the command line is fed to it once. Each input gets memory of exactly its size, so that the
 * address sanitizer sees a step too far.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (!file || fstat(fileno(file), &info) != 0) {
        perror(path);
        return 1;
    }
    size_t bytes = (size_t)info.st_size;
    uint8_t *data = malloc(bytes ? bytes : 1);
    if (!data || fread(data, 1, bytes, file) != bytes) {
        perror(path);
        return 1;
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, bytes);
    free(data);
    return 0;
}

static int replay_directory(const char *path, size_t *count) {
    DIR *list = opendir(path);
    if (!list) {
        perror(path);
        return 1;
    }
    int failed = 0;
    for (struct dirent *entry; (entry = readdir(list));) {
        char name[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        failed |= replay_file(name);
        ++*count;
    }
    closedir(list);
    return failed;
}

int main(int argc, char **argv) {
    size_t count = 0;
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        struct stat info;
        if (stat(argv[i], &info) == 0 && S_ISDIR(info.st_mode)) {
            failed |= replay_directory(argv[i], &count);
        } else {
            failed |= replay_file(argv[i]);
            count++;
        }
    }
    printf("replayed %zu inputs\n", count);
    return failed || count == 0; /* a corpus that is not there must not look like a pass */
}
