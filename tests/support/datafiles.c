#include "support/datafiles.h"

#include "base/bytes.h"
#include "formats/yaml.h"
#include "support/test.h"
#include <dirent.h>
#include <unistd.h>
#include <zlib.h>

static char directory[200];

static void remove_all(const char *path) {
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char inside[600];
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove_all(inside);
    }
    if (folder)
        closedir(folder);
    remove(path);
}

static void remove_directory(void) {
    remove_all(directory);
}

const char *rt_test_directory(void) {
    if (!directory[0]) {
        const char *base = getenv("TMPDIR");
        snprintf(directory, sizeof directory, "%s/rt-data-XXXXXX", base && *base ? base : "/tmp");
        if (!mkdtemp(directory)) {
            perror(directory);
            exit(1);
        }
        atexit(remove_directory);
    }
    return directory;
}

const char *rt_test_path(const char *name) {
    static char paths[8][400];
    static size_t next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", rt_test_directory(), name);
    return path;
}

void rt_test_write(const char *name, const void *data, size_t bytes) {
    FILE *file = fopen(rt_test_path(name), "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) {
        perror(name);
        exit(1);
    }
}

void rt_test_write_text(const char *name, const char *text) {
    rt_test_write(name, text, strlen(text));
}

void rt_test_write_gz(const char *name, const void *data, size_t bytes) {
    gzFile file = gzopen(rt_test_path(name), "wb");
    if (!file || gzwrite(file, data, (unsigned)bytes) != (int)bytes || gzclose(file) != Z_OK) {
        perror(name);
        exit(1);
    }
}

static uint8_t *join(const void *head, size_t head_bytes, const void *data, size_t data_bytes,
                     size_t *bytes) {
    *bytes = head_bytes + data_bytes;
    uint8_t *all = malloc(*bytes);
    if (!all)
        exit(1);
    memcpy(all, head, head_bytes);
    if (data_bytes)
        memcpy(all + head_bytes, data, data_bytes);
    return all;
}

uint8_t *rt_test_idx(uint8_t type, const uint32_t *dims, size_t rank, const void *data, size_t data_bytes,
                     size_t *bytes) {
    uint8_t head[4 + 4 * 16] = {0, 0, type, (uint8_t)rank};
    for (size_t i = 0; i < rank; i++)
        rt_put_be32(head + 4 + 4 * i, dims[i]);
    return join(head, 4 + 4 * rank, data, data_bytes, bytes);
}

uint8_t *rt_test_npy(int version, const char *descr, const char *order, const char *shape, const void *data,
                     size_t data_bytes, size_t *bytes) {
    char text[300];
    uint8_t head[400] = "\x93NUMPY";
    size_t front = version == 1 ? 10 : 12;
    int length = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr,
                          order, shape);
    size_t total = (front + (size_t)length + 1 + 63) / 64 * 64;
    head[6] = (uint8_t)version;
    if (version == 1)
        rt_put_le16(head + 8, (uint16_t)(total - front));
    else
        rt_put_le32(head + 8, (uint32_t)(total - front));
    memset(head + front, ' ', total - front);
    memcpy(head + front, text, (size_t)length);
    head[total - 1] = '\n';
    return join(head, total, data, data_bytes, bytes);
}

struct rt_data_wish rt_test_wish(size_t input, size_t outputs) {
    return (struct rt_data_wish){.target = RT_TARGET_CLASSES,
                                 .input = {.rank = 1, .dim = {input}},
                                 .outputs = outputs,
                                 .cache_above = 1 << 30};
}

rt_status rt_test_open(const char *yaml, const struct rt_data_wish *wish, struct rt_dataset *set,
                       struct rt_error *err) {
    struct rt_tree *tree;
    rt_status status = rt_yaml_parse(yaml, strlen(yaml), "run.yaml", &tree, err);
    if (status != RT_OK)
        return status;
    status = rt_dataset_open(tree, rt_test_directory(), wish, set, err);
    rt_tree_destroy(tree);
    return status;
}

bool rt_test_refused(const char *yaml, const struct rt_data_wish *wish, const char *first,
                     const char *second) {
    struct rt_error err = {.text = ""};
    struct rt_dataset set;
    rt_status status = rt_test_open(yaml, wish, &set, &err);
    if (status == RT_OK)
        rt_dataset_close(&set);
    bool good = status == RT_BAD_INPUT && strstr(err.text, first) && strstr(err.text, second);
    if (!good)
        fprintf(stderr, "%s\n  gave status %d: %s\n  expected: %s ... %s\n", yaml, (int)status,
                status == RT_OK ? "(accepted)" : err.text, first, second);
    return good;
}
