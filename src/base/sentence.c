#include "base/sentence.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char dots[] = "...";

static bool sentence_ends_with(const char *word, const char *end) {
    const size_t length = strlen(word), count = strlen(end);
    return length >= count && strcmp(word + length - count, end) == 0;
}

const char *rt_counted(uint64_t count, const char *noun, char text[RT_COUNTED_ROOM]) {
    const size_t length = strlen(noun);
    const bool hisses = sentence_ends_with(noun, "s") || sentence_ends_with(noun, "x") ||
                        sentence_ends_with(noun, "ch") || sentence_ends_with(noun, "sh");
    const bool turns = length > 1 && noun[length - 1] == 'y' && !strchr("aeiou", noun[length - 2]);
    if (count == 1)
        snprintf(text, RT_COUNTED_ROOM, "1 %s", noun);
    else
        snprintf(text, RT_COUNTED_ROOM, "%" PRIu64 " %.*s%s", count, (int)(length - turns), noun,
                 turns    ? "ies"
                 : hisses ? "es"
                          : "s");
    return text;
}

const char *rt_ordinal(uint64_t number, char text[RT_ORDINAL_ROOM]) {
    static const char *const ends[] = {"th", "st", "nd", "rd"};
    const uint64_t last = number % 10, two = number % 100;
    snprintf(text, RT_ORDINAL_ROOM, "%" PRIu64 "%s", number, ends[last > 3 || two - last == 10 ? 0 : last]);
    return text;
}

const char *rt_listed(const char *const *items, size_t count, char *text, size_t room) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < count && items[i]; i++) {
        /* Leaves room for the dots, in case the next one does not fit. */
        const bool last = i + 1 == count || !items[i + 1];
        const size_t more = strlen(items[i]) + (i ? 2 : 0), spare = last ? 0 : sizeof dots + 1;
        if (used + more + spare >= room) {
            snprintf(text + used, room - used, "%s%s", i ? ", " : "", dots);
            break;
        }
        used += (size_t)snprintf(text + used, room - used, "%s%s", i ? ", " : "", items[i]);
    }
    return text;
}

static void sentence_mark_cut(char *text, size_t room) {
    size_t end = room - sizeof dots;
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    memcpy(text + end, dots, sizeof dots);
}

void rt_vsentence(char *text, size_t room, const char *format, va_list args) {
    if (vsnprintf(text, room, format, args) >= (int)room)
        sentence_mark_cut(text, room);
}

void rt_copy_sentence(char *text, size_t room, const char *sentence) {
    const size_t length = strlen(sentence), part = length < room ? length : room - 1;
    memcpy(text, sentence, part);
    text[part] = 0;
    if (part < length)
        sentence_mark_cut(text, room);
}
