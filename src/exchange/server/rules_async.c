/* Asynchronous: every gradient becomes an update as it comes, whatever the parameters it was made with. */
#include "exchange/server/rules.h"

static enum rt_verdict async_judge(struct rt_server_view *view, const struct rt_push *push) {
    (void)view, (void)push;
    return RT_VERDICT_APPLY;
}

const struct rt_rules rt_rules_async = {.asynchronous = true, .judge = async_judge};
