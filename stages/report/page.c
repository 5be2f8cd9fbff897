#include "stages/report/page.h"

/* Part of the executable, so that an installed rematch-report needs no file of ours. */
__asm__(".section .rodata\n"
        ".global page_html\n"
        "page_html:\n"
        ".incbin \"stages/report/page.html\"\n"
        ".byte 0\n"
        ".previous\n");
