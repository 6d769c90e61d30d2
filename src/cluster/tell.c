/* Lines about peers, at a limited rate: a peer must not be able to fill the disk. See tell.h. */
#include "cluster/tell.h"

#include "base/sentence.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* The burst, and seconds per further line. */
static const double most_lines = 100, line_seconds = 10;

void rt_teller_init(struct rt_teller *teller, struct rt_endpoint *endpoint,
                    void (*tell)(void *user, const char *sentence), void *user) {
    *teller = (struct rt_teller){.endpoint = endpoint, .tell = tell, .user = user};
    for (size_t i = 0; i < RT_TELLINGS; i++)
        teller->telling[i].lines = most_lines;
}

static void teller_tell_untold(struct rt_teller *teller, struct rt_telling *telling) {
    char sentence[120];
    if (telling->untold == 0)
        return;
    snprintf(sentence, sizeof sentence, "%s about %s %s left out", RT_COUNTED(telling->untold, "more line"),
             telling == &teller->telling[RT_ABOUT_RUNS] ? "runs" : "callers",
             telling->untold > 1 ? "were" : "was");
    telling->untold = 0;
    teller->tell(teller->user, sentence);
}

void rt_tell(struct rt_teller *teller, enum rt_about about, const char *format, ...) {
    struct rt_telling *telling = &teller->telling[about];
    char sentence[2 * sizeof(((struct rt_error *)0)->text)];
    va_list args;
    if (!teller->tell)
        return;
    const double now = rt_endpoint_now(teller->endpoint);
    telling->lines = fmin(most_lines, telling->lines + (now - telling->at) / line_seconds);
    telling->at = now;
    if (telling->lines < 1) {
        telling->untold++;
        return;
    }
    telling->lines -= 1;
    teller_tell_untold(teller, telling);
    va_start(args, format);
    rt_vsentence(sentence, sizeof sentence, format, args);
    va_end(args);
    teller->tell(teller->user, sentence);
}

void rt_teller_finish(struct rt_teller *teller) {
    for (size_t i = 0; i < RT_TELLINGS && teller->tell; i++)
        teller_tell_untold(teller, &teller->telling[i]);
}
