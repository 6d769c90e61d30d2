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

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool rt_parse_int(const char *text, int64_t *value) {
    bool negative = *text == '-';
    const char *p = text + negative;
    if (!is_digit(*p))
        return false;
    /* Counted downwards: the most negative number has no positive twin. */
    int64_t sum = 0;
    for (; is_digit(*p); p++) {
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

static bool scan_decimal(const char *p, struct decimal *number) {
    *number = (struct decimal){.negative = *p == '-', .fits = true};
    if (*p == '-' || *p == '+')
        p++;
    size_t seen = 0;
    bool point = false;
    for (; is_digit(*p) || (*p == '.' && !point); p++) {
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
        if (!is_digit(*p))
            return false;
        int power = 0;
        for (; is_digit(*p); p++)
            power = power < 10000 ? power * 10 + (*p - '0') : power;
        number->exponent += minus ? -power : power;
    }
    return *p == 0;
}

/* strtod under the C locale, whatever locale the program that embeds us has chosen. */
static bool slow_real(const char *text, double *value) {
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
    if (!scan_decimal(text, &number))
        return false;
    /* Digits below 2^53 and a power of ten up to 22 are both exact as doubles, so one operation rounds once
     * and rounds right. Nearly every number in a table is of this kind. */
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (FLT_EVAL_METHOD != 0 || !number.fits || number.exponent < -22 || number.exponent > 22)
        return slow_real(text, value);
    double digits = (double)number.digits;
    double size = number.exponent < 0 ? digits / power[-number.exponent] : digits * power[number.exponent];
    *value = number.negative ? -size : size;
    return true;
}
