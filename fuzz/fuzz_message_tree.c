/* Any bytes as a configuration tree. */
#include "message_check.h"
#include "wire/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct rt_error err;
    struct rt_tree *tree;
    if (rt_tree_decode(data, bytes, "fuzz", &tree, &err) != RT_OK)
        return 0;
    uint8_t *out = malloc(bytes);
    if (!out)
        abort();
    rt_fuzz_same(data, bytes, out, rt_tree_encode(tree, out, bytes));
    rt_tree_destroy(tree);
    free(out);
    return 0;
}
