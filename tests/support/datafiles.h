/* Data files for tests: a directory that is removed at the end of the block, and writers for each format. */
#ifndef RT_TEST_DATAFILES_H
#define RT_TEST_DATAFILES_H

#include "data/dataset.h"

/* A fresh directory under $TMPDIR or /tmp; the same one for the whole block. */
const char *rt_test_directory(void);

/* Path of a file in that directory; a few results stay valid. */
const char *rt_test_path(const char *name);

void rt_test_write(const char *name, const void *data, size_t bytes);
void rt_test_write_text(const char *name, const char *text);
void rt_test_write_gz(const char *name, const void *data, size_t bytes);

/* IDX or NPY bytes; to be freed. type: the IDX code, or NPY's descr. */
uint8_t *rt_test_idx(uint8_t type, const uint32_t *dims, size_t rank, const void *data, size_t data_bytes,
                     size_t *bytes);
uint8_t *rt_test_npy(int version, const char *descr, const char *order, const char *shape, const void *data,
                     size_t data_bytes, size_t *bytes);

/* A wish for classes with an input of so many values; everything in memory. */
struct rt_data_wish rt_test_wish(size_t input, size_t outputs);

/* Opens a source written as YAML, relative to the directory. */
rt_status rt_test_open(const char *yaml, const struct rt_data_wish *wish, struct rt_dataset *set,
                       struct rt_error *err);

/* Whether opening fails as bad input with all the given texts in its sentence; prints the sentence if not. */
bool rt_test_refused(const char *yaml, const struct rt_data_wish *wish, const char *first,
                     const char *second);

#endif
