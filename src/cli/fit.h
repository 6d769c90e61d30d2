/* Tables that are wider than the screen. */
#ifndef RT_CLI_FIT_H
#define RT_CLI_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Prints a text. Lines with two spaces in a row inside are those of a table; where one is wider than `width`
 * characters, its columns are printed as several tables below one another, each with the first column in
 * front; or only the first of them, where `first` says so. Other lines are printed as they are. Returns how
 * many lines it printed. */
size_t rt_fit_print(FILE *out, const char *text, size_t width, bool first);

/* Columns and rows of the terminal that standard output is; SIZE_MAX: it is none, or does not say. */
void rt_fit_screen(size_t *columns, size_t *rows);
size_t rt_fit_width(void); /* the columns alone */

#endif
