/* Any bytes as YAML. What is accepted must come back the same from its JSON. */
#include "formats/yaml.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static bool equal(const struct rt_tree *a, const struct rt_tree *b) {
    if (a->kind != b->kind || a->count != b->count || (a->key != NULL) != (b->key != NULL))
        return false;
    if ((a->text && strcmp(a->text, b->text) != 0) || (a->key && strcmp(a->key, b->key) != 0))
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!equal(a->items[i], b->items[i]))
            return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct rt_error err;
    struct rt_tree *tree = NULL, *back = NULL;
    char *json = NULL;
    if (rt_yaml_parse((const char *)data, bytes, "fuzz", &tree, &err) != RT_OK)
        return 0;
    if (rt_tree_json(tree, &json, &err) != RT_OK ||
        rt_yaml_parse(json, strlen(json), "json", &back, &err) != RT_OK || !equal(tree, back))
        abort();
    free(json);
    rt_tree_destroy(back);
    rt_tree_destroy(tree);
    return 0;
}
