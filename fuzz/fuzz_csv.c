/* The first line is the options of a CSV source, as YAML; the rest is the file. After a line "----" follows
 * the file with the targets. The first byte chooses what the model wants. */
#include "data/csv.h"
#include "data/store.h"
#include "formats/yaml.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void read_table(const struct rt_tree *tree, int choice, const uint8_t *table, size_t table_bytes,
                       const uint8_t *targets, size_t target_bytes) {
    struct rt_error err;
    struct rt_input input = {0}, others = {0};
    struct rt_dataset set = {0};
    char name[] = "fuzz";
    struct rt_csv_job job = {.tree = tree, .input = &input, .bare = choice == 3};
    struct rt_data_wish wish = {.target = choice == 1   ? RT_TARGET_VALUES
                                          : choice == 2 ? RT_TARGET_INPUT
                                                        : RT_TARGET_CLASSES,
                                .input = {.rank = 1, .dim = {2}},
                                .outputs = choice == 1 ? 1 : 3,
                                .cache_above = UINT64_MAX};
    if (rt_csv_settings_read(tree, &job.settings, &err) != RT_OK ||
        rt_input_memory(table, table_bytes, name, &input, &err) != RT_OK)
        return;
    if (targets && rt_input_memory(targets, target_bytes, name, &others, &err) == RT_OK)
        job.targets_input = &others;
    set.name = name;
    if (rt_store_create(&set.store, &err) == RT_OK && rt_csv_read(&job, &wish, &set, &err) == RT_OK) {
        uint8_t digest[32];
        rt_dataset_hash(&set, digest);
        for (size_t i = 0; set.classes && i < set.count; i++)
            if (set.classes[i] < 0 || (size_t)set.classes[i] >= set.class_count)
                abort();
        if (set.count == 0 || rt_dataset_check(&set, &err) != RT_OK)
            abort();
    }
    rt_store_destroy(set.store);
    rt_input_close(&input);
    rt_input_close(&others);
}

/* Where the mark between the two files begins, or NULL. */
static const uint8_t *find_mark(const uint8_t *data, size_t bytes) {
    for (size_t i = 0; i + 5 <= bytes; i++)
        if (memcmp(data + i, "----\n", 5) == 0)
            return data + i;
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    const uint8_t *line = bytes > 1 ? memchr(data + 1, '\n', bytes - 1) : NULL;
    if (!line || line - data > 500)
        return 0;
    char options[512] = "";
    memcpy(options, data + 1, (size_t)(line - data - 1));
    struct rt_error err;
    struct rt_tree *tree;
    if (rt_yaml_value(options, "fuzz.yaml", &tree, &err) != RT_OK)
        return 0;
    const uint8_t *table = line + 1, *end = data + bytes;
    const uint8_t *mark = find_mark(table, (size_t)(end - table));
    read_table(tree, data[0] % 4, table, (size_t)((mark ? mark : end) - table), mark ? mark + 5 : NULL,
               mark ? (size_t)(end - mark - 5) : 0);
    rt_tree_destroy(tree);
    return 0;
}
