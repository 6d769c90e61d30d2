/* Suggests the word that was probably meant: the nearest by edit distance. */
#include "base/option.h"

#include <string.h>

enum { MAX_WORD = 40 };

static char nearest_lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t nearest_min(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b, ignoring case. */
static size_t nearest_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t row[3][MAX_WORD + 1];
    size_t *before = row[0], *last = row[1], *now = row[2];
    for (size_t j = 0; j <= b_length; j++)
        last[j] = before[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        now[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            char x = nearest_lower(a[i - 1]), y = nearest_lower(b[j - 1]);
            now[j] = nearest_min(last[j - 1] + (x != y), nearest_min(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && x == nearest_lower(b[j - 2]) && nearest_lower(a[i - 2]) == y)
                now[j] = nearest_min(now[j], before[j - 2] + 1);
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
        size_t d = nearest_distance(word, length, names[i], name_length);
        /* A third of the letters may be wrong; the beginning of a long word matches whatever follows. */
        size_t allowed = nearest_min(length, name_length) / 3;
        bool beginning = length >= 3 && strncmp(word, names[i], length) == 0;
        if ((d <= (allowed ? allowed : 1) && d < length) || beginning)
            if (!best || d < best_distance) {
                best = names[i];
                best_distance = d;
            }
    }
    return best;
}
