/* What the user is told of a device: that it is lost, and where it is. */
#include "run/membership.h"
#include "support/test.h"

enum { DEVICES = 4 };
static char names[DEVICES][RT_MAX_TEXT + 1] = {"master", "pi1", "10.0.0.3:7117", "local 1"};
static char addresses[DEVICES][RT_MAX_TEXT + 1] = {"", "10.0.0.2:7117", "10.0.0.3:7117", ""};
static const struct rt_membership who = {.devices = DEVICES, .name = names, .address = addresses};

static void lose(size_t device, size_t *lost, const char *said, const char *read) {
    struct rt_error err;
    rt_fail(&err, RT_FAILED, "%s", said);
    CHECK(rt_membership_lost(&who, device, lost, &err) == RT_LOST && err.status == RT_LOST);
    CHECK_MSG(strcmp(err.text, read) == 0, "'%s', not '%s'", err.text, read);
}

/* Whatever stands in the reason: no text is taken apart. */
TEST(a_lost_device_is_named_before_the_reason) {
    size_t lost = 0;
    lose(1, &lost, "closed the connection", "pi1 (10.0.0.2:7117) is lost: closed the connection");
    CHECK(lost == 1);
    lose(2, NULL, "closed the connection, local 1 reports",
         "10.0.0.3:7117 is lost: closed the connection, local 1 reports");
    lose(1, NULL, "pi1: node 2: odd", "pi1 (10.0.0.2:7117) is lost: pi1: node 2: odd");
    lose(3, NULL, "", "local 1 is lost: ");
}

TEST(the_master_itself_may_be_given_up) {
    size_t lost = 7;
    lose(0, &lost, "closed the connection, pi1 reports",
         "this machine was given up: closed the connection, pi1 reports");
    CHECK(lost == RT_LOST_MASTER); /* no device can be left out */
}

TEST(without_a_view_nodes_have_no_names) {
    const struct rt_node_names known = rt_membership_names(&who);
    CHECK(known.count == 0);
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
