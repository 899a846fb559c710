
/* stand-in */
#include "lib/Target/Target.h"
