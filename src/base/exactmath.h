/*
 * exp, log, tanh, erf and cos of our own: only +, -, *, / and fma on floats (doubles for cos), so every
 * machine, compiler and vector width gives the same bits. Written without branches so that loops over them
 * vectorise. Accuracy is stated at each function and checked by tests/unit/test_exactmath.c.
 */
#ifndef RT_BASE_EXACTMATH_H
#define RT_BASE_EXACTMATH_H

