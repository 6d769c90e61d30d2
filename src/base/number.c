/*
 * Strict numbers from text. The decimal point is a point in every locale, the whole text must be the number,
 * and a real is rounded correctly, so a run file means the same bits on every machine.
 */
#include "base/option.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool number_is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool rt_parse_int(const char *text, int64_t *value) {
    bool negative = *text == '-';
    const char *p = text + negative;
    if (!number_is_digit(*p))
        return false;
    /* Counted downwards: the most negative number has no positive twin. */
    int64_t sum = 0;
    for (; number_is_digit(*p); p++) {
        int digit = *p - '0';
        if (sum < (INT64_MIN + digit) / 10)
            return false;
        sum = sum * 10 - digit;
    }
    if (*p || (!negative && sum == INT64_MIN))
        return false;
    *value = negative ? sum : -sum;
    return true;
}

bool rt_parse_size(const char *text, uint64_t alone, uint64_t *bytes) {
    static const char units[] = "KMGT";
    char number[24];
    const size_t length = strlen(text);
    const char *unit = length > 1 ? strchr(units, text[length - 1]) : NULL;
    const size_t digits = length - (unit ? 1 : 0);
    const uint64_t each = unit ? UINT64_C(1) << 10 * (unit - units + 1) : alone;
    int64_t value;
    if (digits >= sizeof number)
        return false;
    memcpy(number, text, digits);
    number[digits] = 0;
    if (!rt_parse_int(number, &value) || number[0] == '-' || (uint64_t)value > INT64_MAX / each)
        return false;
    *bytes = (uint64_t)value * each;
    return true;
}

/* The parts of a decimal number: digits * 10^exponent, as far as they fit. */
struct decimal {
    bool negative, fits;
    uint64_t digits;
    int exponent;
};

static bool number_scan_decimal(const char *p, struct decimal *number) {
    *number = (struct decimal){.negative = *p == '-', .fits = true};
    if (*p == '-' || *p == '+')
        p++;
    size_t seen = 0;
    bool point = false;
    for (; number_is_digit(*p) || (*p == '.' && !point); p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        seen++;
        if (number->digits > (UINT64_C(1) << 53) / 10 - 1)
            number->fits = false;
        else
            number->digits = number->digits * 10 + (uint64_t)(*p - '0');
        if (point && number->fits)
            number->exponent--;
    }
    if (seen == 0)
        return false;
    if (*p == 'e' || *p == 'E') {
        p++;
        bool minus = *p == '-';
        if (*p == '-' || *p == '+')
            p++;
        if (!number_is_digit(*p))
            return false;
        int power = 0;
        for (; number_is_digit(*p); p++)
            power = power < 10000 ? power * 10 + (*p - '0') : power;
        number->exponent += minus ? -power : power;
    }
    return *p == 0;
}

/* strtod under the C locale, whatever locale the embedding program has chosen. */
static bool number_parse_slowly(const char *text, double *value) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0)
        return false;
    locale_t before = uselocale(plain);
    char *end;
    double parsed = strtod(text, &end);
    uselocale(before);
    freelocale(plain);
    if (*end || !isfinite(parsed))
        return false;
    *value = parsed;
    return true;
}

bool rt_parse_real(const char *text, double *value) {
    struct decimal number;
    if (!number_scan_decimal(text, &number))
        return false;
    /* Digits below 2^53 and a power of ten up to 22 are both exact as doubles, so one operation rounds once
     * and rounds right. Nearly every number in a table is of this kind. */
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (FLT_EVAL_METHOD != 0 || !number.fits || number.exponent < -22 || number.exponent > 22)
        return number_parse_slowly(text, value);
    double digits = (double)number.digits;
    double size = number.exponent < 0 ? digits / power[-number.exponent] : digits * power[number.exponent];
    *value = number.negative ? -size : size;
    return true;
}

/* The first of these characters that stands between digits; 0: none, or the text has other characters. */
static char number_find_separator(const char *text, const char *separators) {
    char found = 0;
    for (const char *p = text + (*text == '-' || *text == '+'); *p; p++) {
        const bool separator =
            strchr(separators, *p) && p > text && number_is_digit(p[-1]) && number_is_digit(p[1]);
        if (!number_is_digit(*p) && *p != '.' && !separator)
            return 0;
        if (separator && !found)
            found = *p;
    }
    return found;
}

const char *rt_number_hint(const char *text) {
    if (number_find_separator(text, ",_' "))
        return "; numbers have a decimal point, not a comma, and no separators between digits";
    if (number_find_separator(text, "/"))
        return "; a fraction is written out, as 0.5 for 1/2";
    const size_t length = strlen(text);
    if (length > 1 && text[length - 1] == '%' && number_is_digit(text[0]))
        return "; a percentage is written out, as 0.2 for 20%";
    return "";
}

const char *rt_real_text(double value, char text[RT_REAL_ROOM]) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, RT_REAL_ROOM, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    /* A locale's decimal separator may be longer than a point. */
    char *to = text;
    for (const char *at = text; *at; at++) {
        if (strchr("0123456789+-einfa", *at))
            *to++ = *at;
        else if (to == text || to[-1] != '.')
            *to++ = '.';
    }
    *to = 0;
    return text;
}

/* A number with one of several endings. */
static bool number_parse_with_unit(const char *text, const char *const *endings, const double *units,
                                   size_t count, double *value) {
    const size_t length = strlen(text);
    char number[64];
    double unit = 1;
    size_t kept = length;
    for (size_t i = 0; i < count; i++) {
        const size_t ending = strlen(endings[i]);
        if (ending < length && strcmp(text + length - ending, endings[i]) == 0) {
            kept = length - ending;
            unit = units[i];
            break;
        }
    }
    if (kept >= sizeof number)
        return false;
    snprintf(number, sizeof number, "%.*s", (int)kept, text);
    double amount;
    if (!rt_parse_real(number, &amount) || !(amount >= 0) || !isfinite(amount * unit))
        return false;
    *value = amount * unit;
    return true;
}

bool rt_parse_rate(const char *text, double *bytes_per_second) {
    static const char *const endings[] = {"K", "k", "M", "G", "T"};
    static const double units[] = {1e3, 1e3, 1e6, 1e9, 1e12};
    double bits;
    if (!number_parse_with_unit(text, endings, units, sizeof units / sizeof *units, &bits))
        return false;
    *bytes_per_second = bits / 8;
    return true;
}

bool rt_parse_duration(const char *text, double *seconds) {
    static const char *const endings[] = {"us", "ms", "s"};
    static const double units[] = {1e-6, 1e-3, 1};
    return number_parse_with_unit(text, endings, units, sizeof units / sizeof *units, seconds);
}
