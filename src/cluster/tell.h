/*
 * Lines for people about what peers do. Those by subject: each has its own rate limit, so that neither can
 * flood the log or suppress lines about the other.
 */
#ifndef RT_CLUSTER_TELL_H
#define RT_CLUSTER_TELL_H

#include "net/transport.h"

enum rt_about { RT_ABOUT_RUNS, RT_ABOUT_CALLERS, RT_TELLINGS };

struct rt_teller {
    struct rt_endpoint *endpoint; /* for its time */
    void (*tell)(void *user, const char *sentence);
    void *user;
    struct rt_telling {
        double lines, at; /* that may be told now; when this was counted */
        size_t untold;
    } telling[RT_TELLINGS];
};

/* tell: one sentence at a time; may be NULL. */
void rt_teller_init(struct rt_teller *teller, struct rt_endpoint *endpoint,
                    void (*tell)(void *user, const char *sentence), void *user);
void rt_tell(struct rt_teller *teller, enum rt_about about, const char *format, ...) RT_PRINTF(3, 4);
void rt_teller_finish(struct rt_teller *teller); /* says how many lines were left out */

#endif
