/** What the process ends with; `cellstore --help` lists them. */
export const EXIT_OK = 0
export const EXIT_FAILED = 1
/** The command line or a setting is wrong: nothing was tried. */
export const EXIT_USAGE = 2
