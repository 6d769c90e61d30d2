/* Building blocks of messages: counts with their noun, ordinals, lists. */
#ifndef RT_BASE_SENTENCE_H
#define RT_BASE_SENTENCE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* "1 layer", "3 layers", "2 classes". The text lives as long as the enclosing block. */
#define RT_COUNTED(count, noun) rt_counted((count), (noun), (char[RT_COUNTED_ROOM]){0})
/* "1st", "12th", "23rd". */
#define RT_ORDINAL(number) rt_ordinal((number), (char[RT_ORDINAL_ROOM]){0})
/* "exact, fast, reference"; items: NULL-terminated. */
#define RT_LISTED(items) rt_listed((items), SIZE_MAX, (char[RT_LISTED_ROOM]){0}, RT_LISTED_ROOM)

/* Room for any list of ours: the longest, that of the strategies, takes less than half of it. */
enum { RT_COUNTED_ROOM = 64, RT_ORDINAL_ROOM = 24, RT_LISTED_ROOM = 800 };

/* Each fills text and returns it. */
const char *rt_counted(uint64_t count, const char *noun, char text[RT_COUNTED_ROOM]);
const char *rt_ordinal(uint64_t number, char text[RT_ORDINAL_ROOM]);
/* Up to count items, or up to a NULL. Items that do not fit are left out whole, and "..." stands for them. */
const char *rt_listed(const char *const *items, size_t count, char *text, size_t room);

/* vsnprintf and strcpy for messages: one that does not fit ends with "...", and not within a character. */
void rt_vsentence(char *text, size_t room, const char *format, va_list args);
void rt_copy_sentence(char *text, size_t room, const char *sentence);

#endif
