/* One device has one name: in what other nodes say of it by number too. */
#include "run/membership.h"
#include "support/test.h"

enum { DEVICES = 4 };
static char names[DEVICES][RT_MAX_TEXT + 1] = {"master", "pi1", "10.0.0.3:7117", "local 1"};
static char addresses[DEVICES][RT_MAX_TEXT + 1] = {"", "10.0.0.2:7117", "10.0.0.3:7117", ""};
static const struct rt_membership who = {.devices = DEVICES, .name = names, .address = addresses};

/* A ring without device 1. */
static size_t without_one(const void *user, size_t node) {
    (void)user;
    return node ? node + 1 : 0;
}

static const char *named(const char *said, bool shifted) {
    static struct rt_error err;
    rt_fail(&err, RT_FAILED, "%s", said);
    rt_membership_name_nodes(&who, shifted ? DEVICES - 1 : DEVICES, shifted ? without_one : NULL, NULL, &err);
    CHECK(err.status == RT_FAILED);
    return err.text;
}

TEST(numbers_become_names) {
    static const struct {
        const char *said, *read;
        bool shifted;
    } cases[] = {
        {"node 1: closed the connection", "pi1: closed the connection", false},
        {"node 3 (local 1): node 1: closed the connection", "local 1: pi1: closed the connection", false},
        {"pi1 (10.0.0.2:7117): cannot reach node 3: did not answer in time",
         "pi1 (10.0.0.2:7117): cannot reach local 1: did not answer in time", false},
        /* the port that somebody connects from names nobody */
        {"node 1 (127.0.0.1:53124): it sent nonsense", "pi1: it sent nonsense", false},
        {"node 1 (10.0.0.2:7117): it sent nonsense", "pi1: it sent nonsense", false},
        /* a name that several nodes have, and a name counts for more than a number */
        {"node 2 (raspberrypi): no memory", "10.0.0.3:7117 (raspberrypi): no memory", false},
        {"node 2 (pi1): no memory", "pi1: no memory", false},
        {"node 1: closed", "10.0.0.3:7117: closed", true},
        {"node 3: closed", "node 3: closed", true},
        {"node 7 is unknown, a node is not, supernode 1 neither",
         "node 7 is unknown, a node is not, supernode 1 neither", false},
        {"node 1", "pi1", false},
        {"node ", "node ", false},
        {"node 1 (unended", "pi1 (unended", false},
        {"", "", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *read = named(cases[i].said, cases[i].shifted);
        CHECK_MSG(strcmp(read, cases[i].read) == 0, "'%s', not '%s'", read, cases[i].read);
    }
}

TEST(long_sentences_stay_inside) {
    struct rt_error err = {.status = RT_FAILED};
    for (size_t i = 0; i + 1 < sizeof err.text; i++)
        err.text[i] = "node 2"[i % 6];
    rt_membership_name_nodes(&who, DEVICES, NULL, NULL, &err);
    CHECK(strlen(err.text) < sizeof err.text);
    for (size_t i = 0; i + 1 < sizeof err.text; i++)
        err.text[i] = "node 2 "[i % 7];
    rt_membership_name_nodes(&who, DEVICES, NULL, NULL, &err);
    CHECK(strlen(err.text) == sizeof err.text - 1 &&
          strncmp(err.text, "10.0.0.3:7117 10.0.0.3:7117 ", 28) == 0);
}

TEST(a_lost_device_is_named_once) {
    struct rt_error err;
    rt_fail(&err, RT_FAILED, "pi1: closed the connection");
    CHECK(rt_membership_lost(&who, 1, NULL, &err) == RT_LOST && err.status == RT_LOST);
    CHECK_MSG(strcmp(err.text, "pi1 (10.0.0.2:7117) is lost: closed the connection") == 0, "%s", err.text);
    rt_fail(&err, RT_FAILED, "local 1: 10.0.0.3:7117: closed the connection");
    rt_membership_lost(&who, 2, NULL, &err);
    CHECK_MSG(strcmp(err.text, "10.0.0.3:7117 is lost: local 1: 10.0.0.3:7117: closed the connection") == 0,
              "%s", err.text);
}

TEST(addresses_are_told_once) {
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    rt_membership_print_addresses(&who, out);
    fclose(out);
    CHECK_MSG(strcmp(text, "pi1 is 10.0.0.2:7117.\n") == 0, "%s", text);
    free(text);
}

TEST_MAIN()
