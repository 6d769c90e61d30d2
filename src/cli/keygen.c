/* ringtmp keygen: a cluster key. */
#include "cli/commands.h"
#include "cli/text.h"
#include "net/tcp.h"

struct settings {
    bool unused; /* the command has no options */
};

static int run_keygen(const struct rt_invocation *invocation) {
    const char *path = invocation->operands.items[0];
    struct rt_error err;
    if (rt_key_write(path, &err) != RT_OK)
        return rt_exit_error(&err);
    fputs("a new cluster key is in ", stdout);
    rt_text_print(stdout, path);
    fputs("; copy it to every device of the cluster and keep it secret\n", stdout);
    return RT_EXIT_DONE;
}

const struct rt_command rt_command_keygen = {
    .name = "keygen",
    .summary = "make a cluster key: only nodes that have it can connect, and their traffic is encrypted",
    .details =
        "Writes random bytes into FILE, which only you can read, and which must not exist yet. All nodes of\n"
        "a cluster and its master are started with the same file: then they speak with one another only,\n"
        "and everything between them is encrypted (TLS 1.3). Copy it by a safe way, such as scp.\n",
    .examples = "  ringtmp keygen cluster.key\n"
                "  ringtmp node --listen 0.0.0.0:7117 --key cluster.key\n",
    .operands = {"FILE"},
    .settings_bytes = sizeof(struct settings),
    .run = run_keygen,
};
