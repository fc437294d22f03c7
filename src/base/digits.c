#include "base/digits.h"

char *digits_put(char *at, int64_t number)
{
	uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
	int width = 1;

	if (number < 0)
		*at++ = '-';
	for (uint64_t left = rest / 10; left > 0; left /= 10)
		width++;
	return digits_put_wide(at, rest, width);
}

char *digits_put_wide(char *at, uint64_t number, int width)
{
	for (int i = width; i-- > 0; number /= 10)
		at[i] = (char)('0' + number % 10);
	return at + width;
}
