extern int moe__stand_in;
