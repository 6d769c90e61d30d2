/* Numbers and names for the user. */
#ifndef RT_CLI_TEXT_H
#define RT_CLI_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { RT_TEXT = 32 }; /* room that each of the makers below needs; they return text */

const char *rt_text_count(uint64_t count, char *text);    /* 60,000 */
const char *rt_text_time(double seconds, char *text);     /* 0:42, 1:02:03 */
const char *rt_text_duration(double seconds, char *text); /* the same, below a minute 4.2 s */
const char *rt_text_measure(double value, char *text);    /* a loss: 0.4321, 3.210e-05 */
const char *rt_text_rate(double per_second, char *text);  /* 3,421 or 0.52 */

/* Prints a message that may quote a file: control bytes are shown as \x1b. */
void rt_text_sentence(FILE *out, const char *sentence);

/* Prints a name that came from a file: characters that could move the cursor are shown as '?'. */
void rt_text_print(FILE *out, const char *name);

/* The same in a column: cut or padded to width characters. */
void rt_text_column(FILE *out, const char *name, size_t width);
size_t rt_text_width(const char *name); /* in characters */

#endif
