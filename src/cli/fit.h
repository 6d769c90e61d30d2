/* Tables that are wider than the screen. */
#ifndef RT_CLI_FIT_H
#define RT_CLI_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Prints a text. Lines with two consecutive spaces inside form a table; if a table is wider than `width`
 * characters, its columns are printed as several tables below one another, each beginning with the first
 * column; or only the first of them, if `first` is set. Other lines are printed unchanged. Returns the number
 * of lines printed. */
size_t rt_fit_print(FILE *out, const char *text, size_t width, bool first);

/* Columns and rows of the terminal at standard output; SIZE_MAX: not a terminal, or unknown. */
void rt_fit_screen(size_t *columns, size_t *rows);
size_t rt_fit_width(void); /* the columns alone */

#endif
