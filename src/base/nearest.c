/* The word somebody probably meant: the nearest by edit distance, so that a typing error costs one look. */
#include "base/option.h"

#include <string.h>

enum { MAX_WORD = 40 };

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b; capitals do not count. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t row[3][MAX_WORD + 1];
    size_t *before = row[0], *last = row[1], *now = row[2];
    for (size_t j = 0; j <= b_length; j++)
        last[j] = before[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        now[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            char x = lower(a[i - 1]), y = lower(b[j - 1]);
            now[j] = smaller(last[j - 1] + (x != y), smaller(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y)
                now[j] = smaller(now[j], before[j - 2] + 1);
        }
        size_t *free_row = before;
        before = last, last = now, now = free_row;
    }
    return last[b_length];
}

const char *rt_nearest(const char *word, const char *const *names) {
    size_t length = strlen(word);
    if (length == 0 || length > MAX_WORD)
        return NULL;
    const char *best = NULL;
    size_t best_distance = 0;
    for (size_t i = 0; names[i]; i++) {
        size_t name_length = strlen(names[i]);
        if (name_length > MAX_WORD)
            continue;
        size_t d = distance(word, length, names[i], name_length);
        /* A third of the letters may be wrong; the beginning of a long word is near whatever follows it. */
        size_t allowed = smaller(length, name_length) / 3;
        bool beginning = length >= 3 && strncmp(word, names[i], length) == 0;
        if ((d <= (allowed ? allowed : 1) && d < length) || beginning)
            if (!best || d < best_distance) {
                best = names[i];
                best_distance = d;
            }
    }
    return best;
}
