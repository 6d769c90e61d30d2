/*
 * Arrays in files (IDX, NPY): a small header, then numbers. Where they can be useddirectly, they are
 * mapped; else (compressed, or big-endian numbers wider than a byte) they are converted, in memory or, when
 * large, once into a cache.
 */
#ifndef RT_DATA_ARRAY_H
#define RT_DATA_ARRAY_H

#include "data/dataset.h"
#include "data/input.h"

/* What a header says. */
struct rt_array_head {
    enum rt_data_type type;
    size_t rank;
    size_t dim[RT_MAX_RANK + 1]; /* dim[0] is the number of examples */
    size_t stored_bytes;         /* of one number in the file */
    /* Converts n numbers from the file's form to type; NULL: they are the same. */
    void (*convert)(const uint8_t *stored, size_t n, uint8_t *out);
};

struct rt_array {
    enum rt_data_type type;
    size_t count;
    struct rt_shape shape; /* of one example; [1] when the file has one dimension */
    const void *data;      /* not always aligned */
    bool mapped;           /* where the file is: takes memory only once it is read */
};

/* Reads a header from the front of the input. */
typedef rt_status (*rt_head_read)(struct rt_input *input, struct rt_array_head *head, struct rt_error *err);
rt_status rt_idx_head(struct rt_input *input, struct rt_array_head *head, struct rt_error *err);
rt_status rt_npy_head(struct rt_input *input, struct rt_array_head *head, struct rt_error *err);

/* Reads a whole array; the store keeps what it points at (the caller owns the bytes given to
 * rt_input_memory). wish: for the cache; its input shape is compared when is_inputs. The input may be closed
 * afterwards. */
rt_status rt_array_read(struct rt_input *input, rt_head_read read_head, const struct rt_data_wish *wish,
                        bool is_inputs, struct rt_data_store *store, struct rt_array *array,
                        struct rt_error *err);

/* The number at an index, as a double: exact except for 64-bit integers beyond 2^53. */
double rt_array_number(enum rt_data_type type, const void *data, size_t at);

/* Fails if the size of an example is not that of the model's input. */
rt_status rt_data_fit(const struct rt_data_wish *wish, const struct rt_shape *shape, const char *name,
                      struct rt_error *err);

#endif
