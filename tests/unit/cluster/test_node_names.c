/* What nodes are called in sentences, and what a node reports of its end. */
#include "cluster/node_names.h"
#include "support/test.h"

static const char called[][RT_NODE_NAME + 1] = {"master", "pi1", "", "10.0.0.4:7117"};
static const struct rt_node_names names = {called, sizeof called / sizeof *called}, unknown;

TEST(a_node_has_its_name_or_its_number) {
    char text[RT_NAME_ROOM];
    CHECK(strcmp(rt_node_name(&names, 0, text), "the master") == 0);
    CHECK(strcmp(rt_node_name(&names, 1, text), "pi1") == 0);
    CHECK(strcmp(rt_node_name(&names, 2, text), "node 2") == 0); /* not known */
    CHECK(strcmp(rt_node_name(&names, 3, text), "10.0.0.4:7117") == 0);
    CHECK(strcmp(rt_node_name(&names, 4, text), "node 4") == 0); /* whatever a peer says */
    CHECK(strcmp(rt_node_name(&unknown, 0, text), "the master") == 0);
    CHECK(strcmp(rt_node_name(&unknown, 1, text), "node 1") == 0);
}

TEST(a_failure_becomes_a_sentence) {
    struct rt_error err;
    rt_fail(&err, RT_FAILED, "closed the connection");
    CHECK(rt_node_names_blame(&names, RT_NODE_NONE, &err) == RT_FAILED);
    CHECK(strcmp(err.text, "closed the connection") == 0);
    CHECK(rt_node_names_blame(&names, 1, &err) == RT_FAILED);
    CHECK_MSG(strcmp(err.text, "pi1: closed the connection") == 0, "%s", err.text);
}

TEST(a_report_has_the_number_of_the_node_at_fault) {
    struct rt_error_message report;
    struct rt_error why;
    rt_fail(&why, RT_NO_MEMORY, "no memory");
    rt_node_names_report(&names, 3, RT_NODE_NONE, &why, &report);
    CHECK(report.status == RT_NO_MEMORY && report.node == 3 && strcmp(report.text, "no memory") == 0);
    rt_fail(&why, RT_FAILED, "closed the connection");
    rt_node_names_report(&names, 3, 1, &why, &report);
    CHECK(report.status == RT_IO && report.node == 1);
    CHECK_MSG(strcmp(report.text, "closed the connection, 10.0.0.4:7117 reports") == 0, "%s", report.text);
    CHECK(strcmp(why.text, "closed the connection") == 0);
    rt_node_names_report(&names, 3, 0, &why, &report);
    CHECK(report.status == RT_IO && report.node == 0);
}

TEST(a_long_reason_is_cut) {
    struct rt_error_message report;
    struct rt_error why = {.status = RT_FAILED};
    memset(why.text, 'x', sizeof why.text - 1);
    rt_node_names_report(&names, 3, 1, &why, &report);
    CHECK(strlen(report.text) == RT_MAX_TEXT && strcmp(report.text + RT_MAX_TEXT - 4, "x...") == 0);
}

TEST_MAIN()
