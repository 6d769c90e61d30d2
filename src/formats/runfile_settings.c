/* Settings, "key=value", and their effect on the tree of a run file. */
#include "formats/runfile_inside.h"

#include "formats/yaml.h"
#include <stdlib.h>
#include <string.h>

/* The option with which it was given, for messages; *setting advances to the key. */
static const char *settings_origin(const char **setting) {
    static const char *const places[] = {"rt_run_set",   "--set", "--nodes",    "--node", "--listen",
                                         "--wait-nodes", "--key", "--strategy", "--seed", "--math"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const size_t length = strlen(places[i]);
        if (strncmp(*setting, places[i], length) == 0 && (*setting)[length] == ' ') {
            *setting += length + 1;
            return places[i];
        }
    }
    return "the settings";
}

rt_status rt_spec_apply_setting(struct rt_tree *tree, const char *setting, struct rt_error *err) {
    const char *typed = settings_origin(&setting), *equals = strchr(setting, '=');
    if (!equals || equals == setting)
        return rt_fail(err, RT_BAD_INPUT, "%s: '%s' is not of the form key=value, as in train.epochs=5",
                       typed, setting);
    char *key = strndup(setting, (size_t)(equals - setting));
    if (!key)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for a setting");
    struct rt_tree *value = NULL;
    rt_status status = rt_yaml_value(equals + 1, typed, &value, err);
    if (status == RT_OK)
        status = rt_tree_set(tree, key, value, err);
    if (status != RT_OK)
        rt_tree_destroy(value);
    free(key);
    return status;
}

static bool settings_have(const char *const *settings, size_t count, const char *key) {
    const size_t length = strlen(key);
    for (size_t i = 0; i < count; i++) {
        const char *setting = settings[i];
        settings_origin(&setting);
        if (strncmp(setting, key, length) == 0 && setting[length] == '=')
            return true;
    }
    return false;
}

rt_status rt_spec_choose_devices(struct rt_tree *tree, const char *const *settings, size_t count,
                                 struct rt_error *err) {
    const bool here = settings_have(settings, count, "cluster.nodes"),
               there = settings_have(settings, count, "cluster.node");
    const struct rt_tree *cluster = rt_tree_get(tree, "cluster");
    if (there && !here && rt_tree_get(cluster, "nodes"))
        return rt_spec_apply_setting(tree, "cluster.nodes=1", err);
    return here && !there && rt_tree_get(cluster, "node")
               ? rt_spec_apply_setting(tree, "cluster.node=[]", err)
               : RT_OK;
}
