/*
 * What a person sees of a training run. On a terminal one line is redrawn and validations stay above it; into
 * a pipe or a file each report is a line of its own; quiet shows nothing.
 */
#ifndef RT_CLI_PROGRESS_H
#define RT_CLI_PROGRESS_H

#include "base/status.h"
#include <stdio.h>

struct rt_display {
    const struct rt_run *run;
    FILE *out;
    bool quiet, terminal, colour;
    bool begun; /* the lines that introduce the run are out */
    bool drawn; /* a line that will be redrawn is on the screen */
};

void rt_display_init(struct rt_display *display, const struct rt_run *run, bool quiet);

/* The rt_progress_fn and the rt_notice_fn of a run; user is the display. */
void rt_display_progress(void *user, const struct rt_progress *progress);
void rt_display_notice(void *user, const char *sentence);

/* Takes the redrawn line off the screen, so that something else can be printed. */
void rt_display_clear(struct rt_display *display);

#endif
