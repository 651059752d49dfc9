"""Figures and pages: functions of finished tables."""
