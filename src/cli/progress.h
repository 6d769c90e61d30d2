/*
 * The display of a training run. On a terminal one line is redrawn, above it a table of the devices if there
 * are several, and validations stay above both; into a pipe or a file each report is a line of its own; quiet
 * shows nothing.
 */
#ifndef RT_CLI_PROGRESS_H
#define RT_CLI_PROGRESS_H

#include "base/status.h"
#include <stdio.h>

struct rt_display {
    const struct rt_run *run;
    FILE *out;
    bool quiet, terminal, colour;
    bool begun;   /* the lines that introduce the run are out */
    bool drawn;   /* something that will be redrawn is on the screen: */
    size_t lines; /* so many lines above the cursor's */
    bool kept;    /* nothing is drawn any more */
};

void rt_display_init(struct rt_display *display, const struct rt_run *run, bool quiet);

/* The rt_progress_fn and the rt_notice_fn of a run; user is the display. */
void rt_display_progress(void *user, const struct rt_progress *progress);
void rt_display_notice(void *user, const char *sentence);

/* The devices of a run as a table, at its end. */
void rt_display_nodes(struct rt_display *display);

/* Clears the redrawn lines from the screen, so that other output can be printed. */
void rt_display_clear(struct rt_display *display);

/* Leaves the redrawn lines on the screen, for good, with the cursor in the line below; below: it is there
 * already. */
void rt_display_keep(struct rt_display *display, bool below);

#endif
